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

/// Bytes of a program's stderr that are part of an error message.
pub(super) const END_BYTES: usize = 8 * 1_024;
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

/// An output of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// What a program has written to a stream.
pub(super) enum Output {
    Inline(Vec<u8>),
    File(Spilled),
}

impl Default for Output {
    fn default() -> Self {
        Self::Inline(Vec::new())
    }
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

/// Why reading ended early.
pub(super) enum ReadError {
    /// More was written than is allowed. What is allowed was kept.
    TooMuch(Stream),
    Failed(OutputError),
}

impl From<OutputError> for ReadError {
    fn from(error: OutputError) -> Self {
        Self::Failed(error)
    }
}

/// The output of a program so far, in memory or in a file.
pub(super) struct Gathered<'a> {
    spill: &'a Spill,
    assignment: &'a Assignment,
    sequence: u64,
    stream: Stream,
    /// How many bytes may still be written.
    room: u64,
    is_too_much: bool,
    /// The output, or its end if it is in a file.
    bytes: Vec<u8>,
    file: Option<SpillFile>,
}

impl<'a> Gathered<'a> {
    pub(super) const fn new(
        spill: &'a Spill,
        assignment: &'a Assignment,
        sequence: u64,
        stream: Stream,
        max: u64,
    ) -> Self {
        Self {
            spill,
            assignment,
            sequence,
            stream,
            room: max,
            is_too_much: false,
            bytes: Vec::new(),
            file: None,
        }
    }

    /// Reads to the end. If the future is dropped, what was read is kept.
    pub(super) async fn read(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
    ) -> Result<(), ReadError> {
        let mut buffer = Vec::new();
        while !self.is_too_much {
            buffer.clear();
            buffer.reserve(READ_BYTES);
            if from.read_buf(&mut buffer).await.map_err(OutputError::Unread)? == 0 {
                return Ok(());
            }
            self.add(&buffer)?;
        }
        Err(ReadError::TooMuch(self.stream))
    }

    /// Adds what is allowed of some bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let most = usize::try_from(self.room).unwrap_or(usize::MAX);
        let allowed = bytes.get(..most).unwrap_or(bytes);
        self.room -= allowed.len() as u64;
        self.is_too_much |= allowed.len() < bytes.len();
        if let Some(file) = &mut self.file {
            file.append(allowed)?;
        } else if self.bytes.len() + allowed.len() > self.spill.inline_bytes {
            let mut file = self.spill.begin(self.assignment, self.sequence, self.stream)?;
            file.append(&self.bytes)?;
            file.append(allowed)?;
            self.file = Some(file);
        }
        self.bytes.extend_from_slice(allowed);
        if self.file.is_some() {
            let extra = self.bytes.len().saturating_sub(END_BYTES);
            self.bytes.drain(..extra);
        }
        Ok(())
    }

    /// The end of the output, for an error message.
    pub(super) fn end(&self) -> &[u8] {
        let start = self.bytes.len().saturating_sub(END_BYTES);
        self.bytes.get(start..).unwrap_or_default()
    }

    /// Returns the output, made durable if it is in a file.
    pub(super) async fn finish(self) -> Result<Output, OutputError> {
        match self.file {
            Some(file) => Ok(Output::File(file.finish().await?)),
            None => Ok(Output::Inline(self.bytes)),
        }
    }
}
