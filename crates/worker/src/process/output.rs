//! What a program writes.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::spill::{Spill, SpillFile, Spilled};
use crate::job::Assignment;

/// How much of what a program complains about is kept.
pub(super) const COMPLAINT_BYTES: usize = 8 * 1_024;
const READ_BYTES: usize = 16 * 1_024;

/// What a program wrote.
pub(super) enum Output {
    Inline(Vec<u8>),
    File(Spilled),
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
    pub(super) async fn read(&mut self, stdout: Option<impl AsyncRead + Unpin>) -> io::Result<()> {
        let Some(mut stdout) = stdout else { return Ok(()) };
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            buffer.reserve(READ_BYTES);
            if stdout.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
            self.add(&buffer)?;
        }
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
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
    pub(super) async fn finish(self) -> io::Result<Output> {
        match self.file {
            Some(file) => Ok(Output::File(file.finish().await?)),
            None => Ok(Output::Inline(self.bytes)),
        }
    }

    /// Nobody wants it.
    pub(super) fn discard(self) {
        if let Some(file) = self.file {
            file.discard();
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
