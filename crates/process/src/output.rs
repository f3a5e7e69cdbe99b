//! Reading the output of programs.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use shardwright_coordination::ParkReason;
use shardwright_worker::handler::{Assignment, ItemFailure};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::spill::{Spill, SpillFile, Spilled};

/// Bytes of a program's stderr that are kept.
pub(super) const STDERR_BYTES: usize = 8 * 1_024;
const READ_BYTES: usize = 16 * 1_024;

/// Permissions of long outputs, which are results, before the umask.
pub(super) const RESULT_MODE: u32 = 0o666;
/// Permissions of logs, before the umask. A program writes into them what it does not expect to be
/// published.
pub(super) const LOG_MODE: u32 = 0o640;

/// Creates or opens a regular file for output. A link is not followed, and a pipe is not waited
/// for.
pub(super) fn create(path: &Path, mode: u32, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let options = options.create(true).mode(mode).custom_flags(flags.bits().cast_signed());
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

/// Makes the names in a folder durable. A pipe is not waited for.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)?.sync_all()
}

/// The stdout of a program.
pub(super) enum Output {
    Inline(Vec<u8>),
    File(Spilled),
}

/// Output could not be read or stored. The cause is the worker, not the item: the next item would
/// fail as well.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutputError {
    #[error("the output of a program cannot be read: {0}")]
    Unread(io::Error),
    #[error("the output of a program cannot be stored in {}: {error}", location.display())]
    Unstored { location: PathBuf, error: io::Error },
}

impl OutputError {
    pub(super) fn at(location: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Unstored { location: location.to_owned(), error }
    }
}

impl From<OutputError> for ItemFailure {
    fn from(error: OutputError) -> Self {
        Self::permanent(ParkReason::Other, error.to_string()).of_worker()
    }
}

/// The output of a program so far, in memory or in a file.
pub(super) struct Gathered<'a> {
    spill: &'a Spill,
    assignment: &'a Assignment,
    sequence: u64,
    bytes: Vec<u8>,
    file: Option<SpillFile>,
}

impl<'a> Gathered<'a> {
    pub(super) const fn new(spill: &'a Spill, assignment: &'a Assignment, sequence: u64) -> Self {
        Self { spill, assignment, sequence, bytes: Vec::new(), file: None }
    }

    /// Reads to the end. If the future is dropped, what was read is kept.
    pub(super) async fn read(
        &mut self,
        stdout: Option<impl AsyncRead + Unpin>,
    ) -> Result<(), OutputError> {
        let Some(mut stdout) = stdout else { return Ok(()) };
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            buffer.reserve(READ_BYTES);
            if stdout.read_buf(&mut buffer).await.map_err(OutputError::Unread)? == 0 {
                return Ok(());
            }
            self.add(&buffer)?;
        }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        if let Some(file) = &mut self.file {
            return file.append(bytes);
        }
        if self.bytes.len() + bytes.len() <= self.spill.inline_bytes {
            self.bytes.extend_from_slice(bytes);
            return Ok(());
        }
        let mut file = self.spill.begin(self.assignment, self.sequence)?;
        file.append(&std::mem::take(&mut self.bytes))?;
        file.append(bytes)?;
        self.file = Some(file);
        Ok(())
    }

    /// Returns the output, made durable if it is in a file.
    pub(super) async fn finish(self) -> Result<Output, OutputError> {
        match self.file {
            Some(file) => Ok(Output::File(file.finish().await?)),
            None => Ok(Output::Inline(self.bytes)),
        }
    }
}

/// Reads stderr, and keeps its end.
pub(super) async fn keep_last(kept: &mut Vec<u8>, stderr: Option<impl AsyncRead + Unpin>) {
    let Some(mut stderr) = stderr else { return };
    let mut buffer = Vec::with_capacity(READ_BYTES);
    while let Ok(1..) = stderr.read_buf(&mut buffer).await {
        kept.extend_from_slice(&buffer);
        buffer.clear();
        let extra = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..extra);
    }
}
