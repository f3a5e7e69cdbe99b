//! What a program writes.

use std::io;
use std::path::{Path, PathBuf};

use shardwright_coordination::ParkReason;
use shardwright_worker::handler::{Assignment, ItemFailure};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::spill::{Spill, SpillFile, Spilled};

/// How much of what a program complains about is kept.
pub(super) const COMPLAINT_BYTES: usize = 8 * 1_024;
const READ_BYTES: usize = 16 * 1_024;

/// What a program wrote.
pub(super) enum Output {
    Inline(Vec<u8>),
    File(Spilled),
}

/// What a program wrote could not be taken in, or there is no place for it. That is not the fault
/// of what it worked on: with the next item it would be the same.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unkept {
    #[error("what a program writes cannot be read: {0}")]
    Unread(io::Error),
    #[error("what a program wrote cannot be kept in {}: {error}", place.display())]
    NoPlace { place: PathBuf, error: io::Error },
}

impl Unkept {
    pub(super) fn at(place: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::NoPlace { place: place.to_owned(), error }
    }
}

impl From<Unkept> for ItemFailure {
    fn from(unkept: Unkept) -> Self {
        Self::fatal(ParkReason::Other, unkept.to_string()).of_worker()
    }
}

/// What a program has written so far, in memory or in a file.
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

    /// Reads until there is no more. Whoever drops the future keeps what was read.
    pub(super) async fn read(
        &mut self,
        stdout: Option<impl AsyncRead + Unpin>,
    ) -> Result<(), Unkept> {
        let Some(mut stdout) = stdout else { return Ok(()) };
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            buffer.reserve(READ_BYTES);
            if stdout.read_buf(&mut buffer).await.map_err(Unkept::Unread)? == 0 {
                return Ok(());
            }
            self.add(&buffer)?;
        }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), Unkept> {
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

    /// All of it, made durable if it is in a file.
    pub(super) async fn finish(self) -> Result<Output, Unkept> {
        match self.file {
            Some(file) => Ok(Output::File(file.finish().await?)),
            None => Ok(Output::Inline(self.bytes)),
        }
    }
}

/// Keeps the last of what a program complains about.
pub(super) async fn keep_last(kept: &mut Vec<u8>, stderr: Option<impl AsyncRead + Unpin>) {
    let Some(mut stderr) = stderr else { return };
    let mut buffer = Vec::with_capacity(READ_BYTES);
    while let Ok(1..) = stderr.read_buf(&mut buffer).await {
        kept.extend_from_slice(&buffer);
        buffer.clear();
        let extra = kept.len().saturating_sub(COMPLAINT_BYTES);
        kept.drain(..extra);
    }
}
