//! Running one program to its end.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use shardwright_coordination::ParkReason;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::guard::Guard;
use super::item::row_of;
use super::spill::Spill;
use crate::connector::Item;
use crate::job::{Assignment, JobFailure};

/// How much of what a program complains about is kept.
pub(super) const COMPLAINT_BYTES: usize = 8 * 1_024;
const READ_BYTES: usize = 16 * 1_024;

/// A program, what it gets, and under which right.
pub(super) struct Invocation<'a> {
    pub(super) guard: &'a Guard,
    pub(super) program: &'a std::ffi::OsStr,
    pub(super) arguments: Vec<OsString>,
    pub(super) input: Option<Vec<u8>>,
    pub(super) spill: &'a Spill,
    pub(super) assignment: &'a Assignment,
    pub(super) sequence: u64,
    pub(super) attempt: u32,
    /// The first of the items.
    pub(super) item: &'a Item,
}

/// How a program ended well.
pub(super) struct Finished {
    pub(super) took: Duration,
    pub(super) output: Output,
}

/// What a program wrote.
pub(super) enum Output {
    Inline(Vec<u8>),
    File(PathBuf),
}

impl Invocation<'_> {
    /// Runs the program. Whoever drops the future kills it.
    pub(super) async fn run(self) -> Result<Finished, JobFailure> {
        let start = Instant::now();
        let mut child = self.spawn()?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async {
            if let (Some(mut stdin), Some(input)) = (stdin, &self.input) {
                // A program need not read all that it is given.
                let _closed = stdin.write_all(input).await;
            }
        };
        let (status, output, complaint, ()) =
            tokio::join!(child.wait(), self.collect(stdout), last_of(stderr), feed,);
        let broken = |error: io::Error| JobFailure::retryable(format!("it was lost: {error}"));
        let (status, output) = (status.map_err(broken)?, output.map_err(broken)?);
        if status.success() {
            return Ok(Finished { took: start.elapsed(), output });
        }
        Err(JobFailure::retryable(describe(status, &complaint)))
    }

    fn spawn(&self) -> Result<tokio::process::Child, JobFailure> {
        let guarded = |error: super::GuardError| JobFailure::retryable(error.to_string());
        let Assignment { run, shard, fence, .. } = self.assignment;
        let mut command = Command::new(self.program);
        command
            .args(&self.arguments)
            .env("SHARDWRIGHT_RUN", format!("{:016x}", run.as_raw()))
            .env("SHARDWRIGHT_SHARD", format!("{:016x}", shard.as_raw()))
            .env("SHARDWRIGHT_FENCE", fence.as_raw().to_string())
            .env("SHARDWRIGHT_SEQUENCE", self.sequence.to_string())
            .env("SHARDWRIGHT_ATTEMPT", self.attempt.to_string())
            .stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(self.guard.group().map_err(guarded)?)
            .kill_on_drop(true);
        // A key may have zeros in it, and then it is none of the environment's business.
        if !self.item.key.contains(&0) {
            command.env("SHARDWRIGHT_KEY", OsString::from_vec(self.item.key.to_vec()));
        }
        if let Some(row) = row_of(self.item) {
            command.env("SHARDWRIGHT_ROW", row.to_string());
        }
        command.spawn().map_err(|error| not_started(self.program, &error))
    }

    /// Gathers what the program writes, in memory or in a file.
    async fn collect(&self, stdout: Option<impl AsyncRead + Unpin>) -> io::Result<Output> {
        let mut gathered = Vec::new();
        let Some(mut stdout) = stdout else { return Ok(Output::Inline(gathered)) };
        let mut spilled = None;
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            buffer.reserve(READ_BYTES);
            if stdout.read_buf(&mut buffer).await? == 0 {
                break;
            }
            match &mut spilled {
                None if gathered.len() + buffer.len() <= self.spill.inline_bytes => {
                    gathered.extend_from_slice(&buffer);
                }
                None => {
                    let mut file = self.spill.begin(self.assignment, self.sequence)?;
                    file.append(&std::mem::take(&mut gathered))?;
                    file.append(&buffer)?;
                    spilled = Some(file);
                }
                Some(file) => file.append(&buffer)?,
            }
        }
        match spilled {
            Some(file) => Ok(Output::File(file.finish().await?)),
            None => Ok(Output::Inline(gathered)),
        }
    }
}

/// The last of what a program complains about.
async fn last_of(stderr: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut stderr) = stderr else { return kept };
    let mut buffer = Vec::with_capacity(READ_BYTES);
    while let Ok(1..) = stderr.read_buf(&mut buffer).await {
        kept.extend_from_slice(&buffer);
        buffer.clear();
        let extra = kept.len().saturating_sub(COMPLAINT_BYTES);
        kept.drain(..extra);
    }
    kept
}

pub(super) fn describe(status: ExitStatus, complaint: &[u8]) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    };
    let complaint = String::from_utf8_lossy(complaint);
    match complaint.trim() {
        "" => how,
        complaint => format!("{how}: {complaint}"),
    }
}

fn not_started(program: &std::ffi::OsStr, error: &io::Error) -> JobFailure {
    let detail = format!("{} cannot be started: {error}", program.display());
    match error.kind() {
        io::ErrorKind::NotFound => JobFailure::fatal(ParkReason::NotFound, detail),
        io::ErrorKind::PermissionDenied => JobFailure::fatal(ParkReason::PermissionDenied, detail),
        io::ErrorKind::ArgumentListTooLong => JobFailure::fatal(ParkReason::Other, detail),
        _ => JobFailure::retryable(detail),
    }
}
