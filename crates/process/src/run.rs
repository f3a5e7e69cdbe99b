//! Running one program to its end.

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
use super::output::{Gathered, Output, Unkept, keep_last};
use super::spill::Spill;

/// How long what a program has started may keep its pipes open after its end. What is written
/// later is nobody's output, and waiting for more would be waiting for ever.
const LEFTOVER_WAIT: Duration = Duration::from_millis(500);

/// A program, what it gets, and under which right.
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

/// How a program ended well.
pub(super) struct Finished {
    pub(super) took: Duration,
    pub(super) output: Output,
}

/// How a program did not.
pub(super) enum Failed {
    /// It was not started, because of its arguments: they are too long together, or one of them
    /// cannot be one.
    Unfit(ItemFailure),
    /// It was not started for another reason, or it says that it failed.
    Other(ItemFailure),
}

impl Failed {
    /// What that means for each of `items` items that were worked on together.
    pub(super) fn for_each_of(self, items: usize) -> ItemFailure {
        let (Self::Unfit(failure) | Self::Other(failure)) = self;
        match failure.cause {
            FailureCause::Unclear if items == 1 => failure.own(),
            FailureCause::Unclear | FailureCause::Item | FailureCause::Worker => failure,
        }
    }
}

/// How a program ended.
struct Ended {
    status: ExitStatus,
    /// Whether nobody has its pipes any more.
    is_all_read: bool,
}

impl Invocation<'_> {
    /// Runs the program. Whoever drops the future kills it, and all that it has started. So does
    /// its failure: nobody is to work beside the next try.
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
        let mut complaint = Vec::new();
        let followed = self.follow(&mut child, &mut output, &mut complaint).await;
        let Ended { status, is_all_read } = followed.map_err(Failed::Other)?;
        if !status.success() {
            return Err(Failed::Other(ItemFailure::retryable(describe(status, &complaint))));
        }
        if is_all_read {
            self.guard.put_back(group);
        } else {
            drop(group);
        }
        let output = output.finish().await.map_err(|unkept| Failed::Other(unkept.into()))?;
        Ok(Finished { took: start.elapsed(), output })
    }

    /// Follows a program to its end and that of its output, or a little longer than its own. If
    /// its output cannot be kept, that is not waited for: a program whose output nobody takes any
    /// more would end in some way, or never.
    async fn follow(
        &self,
        child: &mut Child,
        output: &mut Gathered<'_>,
        complaint: &mut Vec<u8>,
    ) -> Result<Ended, ItemFailure> {
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async {
            if let (Some(mut stdin), Some(input)) = (stdin, &self.input) {
                // A program need not read all that it is given.
                let _closed = stdin.write_all(input).await;
            }
        };
        let mut pipes = pin!(async {
            let others = async {
                tokio::join!(keep_last(complaint, stderr), feed);
                Ok::<(), Unkept>(())
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
        let lost = |error| ItemFailure::retryable(format!("it was lost: {error}")).of_worker();
        Ok(Ended { status: status.map_err(lost)?, is_all_read })
    }

    fn spawn(&self, group: &Group) -> Result<Child, Failed> {
        let Assignment { run, shard, fence, .. } = self.assignment;
        let mut command = Command::new(self.program);
        command
            .args(&self.arguments)
            .env("SHARDWRIGHT_RUN", format!("{:016x}", run.as_raw()))
            .env("SHARDWRIGHT_KEY", key_shown(self.item))
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

/// An item's key for the environment, which has no place for zeros: a row by its number, counted
/// from one, everything else byte by byte. With the run it names the item, whoever works on it and
/// how often.
fn key_shown(item: &Item) -> OsString {
    match row_of(item) {
        Some(row) => row.to_string().into(),
        None if item.key.contains(&0) => item.name().into(),
        None => OsString::from_vec(item.key.to_vec()),
    }
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

fn not_started(program: &OsStr, error: &io::Error) -> Failed {
    let detail = format!("{} cannot be started: {error}", program.display());
    match error.kind() {
        io::ErrorKind::ArgumentListTooLong | io::ErrorKind::InvalidInput => {
            Failed::Unfit(ItemFailure::fatal(ParkReason::Other, detail))
        }
        _ => Failed::Other(without_program(error, detail)),
    }
}

/// What it means that a program cannot be started, whatever it would have been given. One that is
/// not there, or is none, does not become one by itself; what the machine lacks may come.
pub(super) fn without_program(error: &io::Error, detail: String) -> ItemFailure {
    let failure = match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::NOEXEC) => {
            ItemFailure::fatal(ParkReason::Other, detail)
        }
        _ => ItemFailure::retryable(detail),
    };
    failure.of_worker()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_arguments_that_cannot_be_given_are_an_items_fault() {
        for (errno, is_retryable) in [
            (Errno::NOENT, false),
            (Errno::ACCESS, false),
            (Errno::NOEXEC, false),
            // Its group is gone; the next has another.
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
        assert!(matches!(too_long, Failed::Unfit(_)));
        assert_eq!(too_long.for_each_of(1).cause, FailureCause::Item);
    }
}
