//! Running one program.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use shardwright_coordination::ParkReason;
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Assignment, FailureCause, ItemFailure};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::guard::{Group, ProcessGuard, ProcessGuardError};
use super::item::row_of;
use super::output::{Gathered, Output, OutputError, keep_last};
use super::spill::Spill;

/// How long children of a program may keep its pipes open after it exited. Later output is dropped,
/// because waiting for it might never end.
const LEFTOVER_WAIT: Duration = Duration::from_millis(500);

/// A program with its arguments, its input and the lease that it runs under.
pub(super) struct Invocation<'a> {
    pub(super) guard: &'a ProcessGuard,
    pub(super) program: &'a OsStr,
    pub(super) arguments: Vec<OsString>,
    pub(super) input: Option<Vec<u8>>,
    pub(super) spill: &'a Spill,
    pub(super) assignment: &'a Assignment,
    pub(super) sequence: u64,
    pub(super) attempt: u32,
    /// The first of the items.
    pub(super) item: &'a Item,
}

/// A program that succeeded.
pub(super) struct Finished {
    pub(super) took: Duration,
    pub(super) output: Output,
}

/// A program that failed.
pub(super) enum Failed {
    /// It was not started because of its arguments: they are too long, or one is invalid.
    BadArguments(ItemFailure),
    /// It was not started for another reason, or it exited with a failure.
    Other(ItemFailure),
}

impl Failed {
    /// The failure of each of `items` items that were processed together.
    pub(super) fn for_each_of(self, items: usize) -> ItemFailure {
        let (Self::BadArguments(failure) | Self::Other(failure)) = self;
        match failure.cause {
            FailureCause::Unclear if items == 1 => failure.own(),
            FailureCause::Unclear | FailureCause::Item | FailureCause::Worker => failure,
        }
    }
}

/// A program that exited.
struct Ended {
    status: ExitStatus,
    /// Whether its pipes are closed.
    is_all_read: bool,
}

impl Invocation<'_> {
    /// Runs the program. Dropping the future kills it and its children. So does a failure: no child
    /// may run beside the next try.
    pub(super) async fn run(self) -> Result<Finished, Failed> {
        let start = Instant::now();
        let unguarded = |error: ProcessGuardError| {
            Failed::Other(ItemFailure::retryable(error.to_string()).of_worker())
        };
        let group = self.guard.take().map_err(unguarded)?;
        let mut child = match self.spawn(&group) {
            Ok(child) => child,
            Err(failed) => {
                self.guard.put_back(group);
                return Err(failed);
            }
        };
        let mut output = Gathered::new(self.spill, self.assignment, self.sequence);
        let mut stderr = Vec::new();
        let ended = self.wait(&mut child, &mut output, &mut stderr).await;
        let Ended { status, is_all_read } = ended.map_err(Failed::Other)?;
        if !status.success() {
            return Err(Failed::Other(ItemFailure::retryable(describe(status, &stderr))));
        }
        if is_all_read {
            self.guard.put_back(group);
        } else {
            drop(group);
        }
        let output = output.finish().await.map_err(|error| Failed::Other(error.into()))?;
        Ok(Finished { took: start.elapsed(), output })
    }

    /// Waits for the program to exit and for its pipes to close, for a limited time. Returns at
    /// once if its output cannot be stored: a program whose output is not read may never exit.
    async fn wait(
        &self,
        child: &mut Child,
        output: &mut Gathered<'_>,
        stderr_end: &mut Vec<u8>,
    ) -> Result<Ended, ItemFailure> {
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async {
            if let (Some(mut stdin), Some(input)) = (stdin, &self.input) {
                // A program may exit without reading all its input.
                let _closed = stdin.write_all(input).await;
            }
        };
        let mut pipes = pin!(async {
            let others = async {
                tokio::join!(keep_last(stderr_end, stderr), feed);
                Ok::<(), OutputError>(())
            };
            tokio::try_join!(output.read(stdout), others)
        });
        let mut ended = pin!(child.wait());
        let (status, read) = tokio::select! {
            biased;
            read = &mut pipes => {
                read?;
                (ended.await, Some(Ok(())))
            }
            status = &mut ended => {
                let read = timeout(LEFTOVER_WAIT, pipes).await.ok();
                (status, read.map(|read| read.map(|_| ())))
            }
        };
        let is_all_read = read.transpose()?.is_some();
        let lost = |error| {
            ItemFailure::retryable(format!("its exit status is unknown: {error}")).of_worker()
        };
        Ok(Ended { status: status.map_err(lost)?, is_all_read })
    }

    fn spawn(&self, group: &Group) -> Result<Child, Failed> {
        let Assignment { run, shard, fence, .. } = self.assignment;
        let mut command = Command::new(self.program);
        command
            .args(&self.arguments)
            .env("SHARDWRIGHT_RUN", format!("{:016x}", run.as_raw()))
            .env("SHARDWRIGHT_KEY", key_variable(self.item))
            .env("SHARDWRIGHT_SHARD", format!("{:016x}", shard.as_raw()))
            .env("SHARDWRIGHT_FENCE", fence.as_raw().to_string())
            .env("SHARDWRIGHT_SEQUENCE", self.sequence.to_string())
            .env("SHARDWRIGHT_ATTEMPT", self.attempt.to_string())
            .stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(group.id())
            .kill_on_drop(true);
        if let Some(row) = row_of(self.item) {
            command.env("SHARDWRIGHT_ROW", row.to_string());
        }
        command.spawn().map_err(|error| not_started(self.program, &error))
    }
}

/// An item's key for an environment variable, which cannot contain NUL: a row by its number from 1,
/// any other item byte by byte. Run and key identify the item across tries and workers.
fn key_variable(item: &Item) -> OsString {
    match row_of(item) {
        Some(row) => row.to_string().into(),
        None if item.key.contains(&0) => item.name().into(),
        None => OsString::from_vec(item.key.to_vec()),
    }
}

/// The exit status and the end of stderr, as text.
pub(super) fn describe(status: ExitStatus, stderr: &[u8]) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "unknown exit status".to_owned(),
    };
    let stderr = String::from_utf8_lossy(stderr);
    match stderr.trim() {
        "" => how,
        stderr => format!("{how}: {stderr}"),
    }
}

fn not_started(program: &OsStr, error: &io::Error) -> Failed {
    let detail = format!("{} cannot be started: {error}", program.display());
    match error.kind() {
        io::ErrorKind::ArgumentListTooLong | io::ErrorKind::InvalidInput => {
            Failed::BadArguments(ItemFailure::permanent(ParkReason::Other, detail))
        }
        _ => Failed::Other(without_program(error, detail)),
    }
}

/// The failure of a program that cannot be started with any item. A missing or invalid program is
/// permanent, a shortage of the machine is retried.
pub(super) fn without_program(error: &io::Error, detail: String) -> ItemFailure {
    let failure = match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::NOEXEC) => {
            ItemFailure::permanent(ParkReason::Other, detail)
        }
        _ => ItemFailure::retryable(detail),
    };
    failure.of_worker()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_invalid_arguments_are_blamed_on_the_item() {
        for (errno, is_retryable) in [
            (Errno::NOENT, false),
            (Errno::ACCESS, false),
            (Errno::NOEXEC, false),
            // Its process group is gone. A retry gets another.
            (Errno::PERM, true),
            (Errno::AGAIN, true),
            (Errno::NOMEM, true),
            (Errno::TXTBSY, true),
        ] {
            let failed = not_started(OsStr::new("tool"), &errno.into());
            let failure = failed.for_each_of(1);
            assert_eq!((failure.cause, failure.is_retryable), (FailureCause::Worker, is_retryable));
        }
        let too_long = not_started(OsStr::new("tool"), &Errno::TOOBIG.into());
        assert!(matches!(too_long, Failed::BadArguments(_)));
        assert_eq!(too_long.for_each_of(1).cause, FailureCause::Item);
    }
}
