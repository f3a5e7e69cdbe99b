//! The file of the rows, and spooling of a pipe into a file.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use shardwright_worker::connector::ConnectorError;

use super::index::{IndexBuilder, LongRow, RowIndex, RowStart};
use crate::files::{open_linked, sync_folder};
use crate::io::{blocking, io_error};

/// Bytes per read.
const CHUNK: usize = 1 << 16;
/// Bytes per read of the pass over the whole file.
const PASS_CHUNK: usize = 1 << 20;

/// An open file of rows.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) separator: u8,
    pub(super) row_bytes_max: usize,
    file: File,
    pub(super) stamp: Stamp,
}

/// Metadata that changes with the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) size: u64,
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) modified: (i64, i64),
    /// Changes with names and permissions as well, so only the saved index compares it.
    pub(super) changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            size: metadata.len(),
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Source {
    pub(super) fn open(
        path: &Path,
        separator: u8,
        row_bytes_max: usize,
    ) -> Result<Self, ConnectorError> {
        // Opening a device may have effects, so the type is checked first.
        let metadata = path.metadata().map_err(io_error("open", path))?;
        if !metadata.is_file() {
            return Err(ConnectorError::NotAFile { path: path.to_owned() });
        }
        let file = open_linked(path).map_err(io_error("open", path))?;
        let metadata = file.metadata().map_err(io_error("open", path))?;
        if !metadata.is_file() {
            return Err(ConnectorError::NotAFile { path: path.to_owned() });
        }
        let stamp = Stamp::of(&metadata);
        Ok(Self { path: path.to_owned(), separator, row_bytes_max, file, stamp })
    }

    /// Reads the whole file, for its digest and its row index.
    pub(super) fn count_rows(&self) -> Result<([u8; 32], RowIndex), ConnectorError> {
        let mut builder = IndexBuilder::new(self.separator, self.row_bytes_max);
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; PASS_CHUNK];
        let mut offset = 0;
        loop {
            let length = self.read(&mut buffer, offset)?;
            let bytes = buffer.get(..length).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            hasher.update(bytes);
            builder.feed(bytes).map_err(|long| self.too_long(long))?;
            offset += length as u64;
        }
        let index = builder.finish().map_err(|long| self.too_long(long))?;
        self.check_unchanged()?;
        if index.size != self.stamp.size {
            return Err(self.changed("it grew or shrank while it was read"));
        }
        Ok((*hasher.finalize().as_bytes(), index))
    }

    /// Fails if the file was written to since it was opened.
    pub(super) fn check_unchanged(&self) -> Result<(), ConnectorError> {
        let metadata = self.file.metadata().map_err(io_error("read", &self.path))?;
        let now = Stamp::of(&metadata);
        if now.size != self.stamp.size {
            return Err(self.changed("its size has changed"));
        }
        if now.modified != self.stamp.modified {
            return Err(self.changed("it was written to"));
        }
        Ok(())
    }

    /// The first row that starts at or after `goal`, searched from a row before it.
    pub(super) fn seek_offset(
        &self,
        from: RowStart,
        goal: u64,
    ) -> Result<RowStart, ConnectorError> {
        self.skip(from, |start| start.offset >= goal)
    }

    /// The start of `row`, searched from a row before it.
    pub(super) fn seek_row(&self, from: RowStart, row: u64) -> Result<RowStart, ConnectorError> {
        self.skip(from, |start| start.row >= row)
    }

    /// Moves from row to row until `found`, or to the end of the file.
    fn skip(
        &self,
        from: RowStart,
        found: impl Fn(RowStart) -> bool,
    ) -> Result<RowStart, ConnectorError> {
        let mut start = from;
        if found(start) {
            return Ok(start);
        }
        let mut buffer = vec![0; CHUNK];
        let mut offset = from.offset;
        loop {
            let length = self.read(&mut buffer, offset)?;
            let bytes = buffer.get(..length).unwrap_or_default();
            if bytes.is_empty() {
                // The last row may end without a separator.
                let unfinished = u64::from(start.offset < offset);
                return Ok(RowStart { row: start.row + unfinished, offset });
            }
            for at in memchr::memchr_iter(self.separator, bytes) {
                start = RowStart { row: start.row + 1, offset: offset + at as u64 + 1 };
                if found(start) {
                    return Ok(start);
                }
            }
            offset += length as u64;
        }
    }

    /// Appends up to `wanted` bytes at `offset` to `buffer`. Returns their number, 0 at the end.
    pub(super) fn append(
        &self,
        buffer: &mut Vec<u8>,
        offset: u64,
        wanted: usize,
    ) -> Result<usize, ConnectorError> {
        let before = buffer.len();
        buffer.resize(before + wanted, 0);
        let length = self.read(buffer.get_mut(before..).unwrap_or_default(), offset)?;
        buffer.truncate(before + length);
        Ok(length)
    }

    /// Checks that a row starts at `offset`: at the start of the file, or after a separator.
    pub(super) fn check_begins(&self, offset: u64) -> Result<(), ConnectorError> {
        let Some(before) = offset.checked_sub(1) else {
            return Ok(());
        };
        let mut byte = [0];
        let read = self.read(&mut byte, before)?;
        // The end of the file is valid without a separator before it.
        if read == 1 && (byte == [self.separator] || offset == self.stamp.size) {
            return Ok(());
        }
        Err(self.changed("a row boundary has moved"))
    }

    pub(super) fn changed(&self, how: &'static str) -> ConnectorError {
        ConnectorError::SourceChanged { path: self.path.clone(), how }
    }

    fn too_long(&self, LongRow(row): LongRow) -> ConnectorError {
        let (path, limit) = (self.path.clone(), self.row_bytes_max);
        ConnectorError::RowTooLong { path, row, limit }
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize, ConnectorError> {
        loop {
            match self.file.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(io_error("read", &self.path)),
            }
        }
    }
}

/// Copies a stream, such as a pipe, into the file at `path`; returns the number of bytes.
///
/// The file appears complete and durable, or not at all. An interrupted copy leaves a temporary
/// file.
pub async fn spool(
    reader: impl Read + Send + 'static,
    path: impl Into<PathBuf>,
) -> Result<u64, ConnectorError> {
    let path = path.into();
    blocking(move || copy(reader, &path).map_err(io_error("spool into", &path))).await
}

fn copy(mut reader: impl Read, path: &Path) -> io::Result<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".spool-").tempfile_in(folder)?;
    let bytes = io::copy(&mut reader, file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    // Makes the name durable as well.
    sync_folder(folder)?;
    Ok(bytes)
}
