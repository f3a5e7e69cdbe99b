//! Running one program.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use shardwright_coordination::ParkReason;
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Assignment, FailureCause, ItemFailure};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::timeout;

use super::guard::{Group, Launch, ProcessGuard, ProcessGuardError, StartError};
use super::item::row_of;
use super::limits::{Limits, timed_out};
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
    pub(super) limits: Limits,
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

/// The worker's ends of a program's pipes.
struct Pipes {
    stdin: Option<Sender>,
    stdout: Receiver,
    stderr: Receiver,
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
        let mut group = self.guard.take().map_err(|error| Failed::Other(unguarded(&error)))?;
        let mut pipes = match self.spawn(&mut group).await {
            Ok(pipes) => pipes,
            Err(failed) => {
                self.guard.put_back(group);
                return Err(failed);
            }
        };
        let mut output = Gathered::new(self.spill, self.assignment, self.sequence);
        let mut stderr = Vec::new();
        let ended = self.wait(&mut group, &mut pipes, &mut output, &mut stderr).await;
        let is_clean = matches!(&ended, Ok(ended) if ended.status.success() && ended.is_all_read);
        // A guard that was killed is not used again.
        if is_clean || group.clear().await.is_ok() {
            self.guard.put_back(group);
        }
        let Ended { status, .. } = ended.map_err(Failed::Other)?;
        if !status.success() {
            return Err(Failed::Other(ItemFailure::retryable(describe(status, &stderr))));
        }
        let output = output.finish().await.map_err(|error| Failed::Other(error.into()))?;
        Ok(Finished { took: start.elapsed(), output })
    }

    /// Waits for the program to exit. When its time is over, it and its children get SIGTERM, and
    /// some time to end.
    async fn wait(
        &self,
        group: &mut Group,
        pipes: &mut Pipes,
        output: &mut Gathered<'_>,
        stderr_end: &mut Vec<u8>,
    ) -> Result<Ended, ItemFailure> {
        let Some(limit) = self.limits.timeout() else {
            return self.watch(group, pipes, output, stderr_end).await;
        };
        if let Ok(ended) = timeout(limit, self.watch(group, pipes, output, stderr_end)).await {
            return ended;
        }
        // A program that ends may write.
        let Pipes { stdout, stderr, .. } = pipes;
        let read = async {
            match tokio::join!(output.read(Some(stdout)), keep_last(stderr_end, Some(stderr))) {
                (Ok(()), ()) => std::future::pending().await,
                (Err(unread), ()) => unread,
            }
        };
        tokio::select! {
            biased;
            unread = read => Err(unread.into()),
            _ended = group.terminate(self.limits.kill_after()) => {
                Err(ItemFailure::retryable(with_stderr(timed_out(limit), stderr_end)))
            }
        }
    }

    /// Waits for the program to exit and for its pipes to close, for a limited time. Returns at
    /// once if its output cannot be stored: a program whose output is not read may never exit.
    async fn watch(
        &self,
        group: &mut Group,
        pipes: &mut Pipes,
        output: &mut Gathered<'_>,
        stderr_end: &mut Vec<u8>,
    ) -> Result<Ended, ItemFailure> {
        let Pipes { stdin, stdout, stderr } = pipes;
        let feed = async {
            if let (Some(mut stdin), Some(input)) = (stdin.take(), &self.input) {
                // A program may exit without reading all its input.
                let _closed = stdin.write_all(input).await;
            }
        };
        let mut pipes = pin!(async {
            let others = async {
                tokio::join!(keep_last(stderr_end, Some(stderr)), feed);
                Ok::<(), OutputError>(())
            };
            tokio::try_join!(output.read(Some(stdout)), others)
        });
        let mut ended = pin!(group.exited());
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
        Ok(Ended { status: status.map_err(|error| unguarded(&error))?, is_all_read })
    }

    async fn spawn(&self, group: &mut Group) -> Result<Pipes, Failed> {
        let Assignment { run, shard, fence, .. } = self.assignment;
        let mut variables = vec![
            ("SHARDWRIGHT_RUN", format!("{:016x}", run.as_raw()).into()),
            ("SHARDWRIGHT_KEY", key_variable(self.item)),
            ("SHARDWRIGHT_SHARD", format!("{:016x}", shard.as_raw()).into()),
            ("SHARDWRIGHT_FENCE", fence.as_raw().to_string().into()),
            ("SHARDWRIGHT_SEQUENCE", self.sequence.to_string().into()),
            ("SHARDWRIGHT_ATTEMPT", self.attempt.to_string().into()),
        ];
        if let Some(row) = row_of(self.item) {
            variables.push(("SHARDWRIGHT_ROW", row.to_string().into()));
        }
        let without = |error: io::Error| Failed::Other(without_program(&error, error.to_string()));
        let (pipes, descriptors) = Pipes::new(self.input.is_some()).map_err(without)?;
        let (program, arguments) = (self.program.to_owned(), self.arguments.clone());
        match group.start(Launch { program, arguments, variables, descriptors }).await {
            Ok(()) => Ok(pipes),
            Err(StartError::Program(error)) => Err(not_started(self.program, &error)),
            Err(StartError::Guard(error)) => Err(Failed::Other(unguarded(&error))),
        }
    }
}

impl Pipes {
    /// Pipes for a program, and its ends of them.
    fn new(has_stdin: bool) -> io::Result<(Self, Vec<(u8, OwnedFd)>)> {
        let ((stdout, to_stdout), (stderr, to_stderr)) = (io::pipe()?, io::pipe()?);
        let mut theirs = vec![(1, to_stdout.into()), (2, to_stderr.into())];
        let mut stdin = None;
        if has_stdin {
            let (from_stdin, ours) = io::pipe()?;
            theirs.push((0, from_stdin.into()));
            stdin = Some(Sender::from_owned_fd(ours.into())?);
        }
        let stdout = Receiver::from_owned_fd(stdout.into())?;
        Ok((Self { stdin, stdout, stderr: Receiver::from_owned_fd(stderr.into())? }, theirs))
    }
}

/// The failure of a guard. The program itself may have killed a guard that was lost.
fn unguarded(error: &ProcessGuardError) -> ItemFailure {
    let failure = ItemFailure::retryable(error.to_string());
    match error {
        ProcessGuardError::Lost => failure,
        ProcessGuardError::Start(_) | ProcessGuardError::NotServing => failure.of_worker(),
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
    with_stderr(how, stderr)
}

/// What went wrong, and the end of stderr.
fn with_stderr(how: String, stderr: &[u8]) -> String {
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
