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
use rustix::process::Signal;
use shardwright_coordination::ParkReason;
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Assignment, FailureCause, ItemFailure};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::timeout;

use super::guard::{Group, Launch, ProcessGuard, ProcessGuardError, StartError};
use super::item::row_of;
use super::limits::{Limits, timed_out, wrote_too_much};
use super::output::{Gathered, Output, OutputError, ReadError, Stream};
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

/// What a program left when it ended.
#[derive(Default)]
pub(super) struct Left {
    pub(super) took: Duration,
    /// None if it is not known how it ended.
    pub(super) status: Option<ExitStatus>,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}

impl Left {
    /// The same without outputs, for the items of a batch after the first.
    pub(super) fn without_outputs(&self) -> Self {
        Self { took: self.took, status: self.status, ..Self::default() }
    }
}

/// A program that failed.
pub(super) struct Failed {
    failure: ItemFailure,
    /// Whether it was not started because of its arguments: they are too long, or one is invalid.
    pub(super) has_bad_arguments: bool,
    /// None if it was not started.
    left: Option<Box<Left>>,
}

impl Failed {
    /// The failure of each of these items, which were processed together. The outputs are in the
    /// record of the first.
    pub(super) fn for_each<'i>(
        self,
        items: impl ExactSizeIterator<Item = &'i Item>,
        line: impl Fn(&Item, Option<&Left>, &str) -> Vec<u8>,
    ) -> impl Iterator<Item = ItemFailure> {
        let Self { failure, left, .. } = self;
        let failure = match failure.cause {
            FailureCause::Unclear if items.len() == 1 => failure.own(),
            FailureCause::Unclear | FailureCause::Item | FailureCause::Worker => failure,
        };
        let quiet = left.as_ref().map(|left| left.without_outputs());
        items.enumerate().map(move |(index, item)| {
            let left = if index == 0 { left.as_deref() } else { quiet.as_ref() };
            let record = line(item, left, &failure.detail);
            failure.clone().with_record(record)
        })
    }
}

/// The failure of a program that was not started.
impl From<ItemFailure> for Failed {
    fn from(failure: ItemFailure) -> Self {
        Self { failure, has_bad_arguments: false, left: None }
    }
}

/// The worker's ends of a program's pipes.
struct Pipes {
    stdin: Option<Sender>,
    stdout: Receiver,
    stderr: Receiver,
}

/// The outputs of a program so far.
struct Outputs<'a> {
    stdout: Gathered<'a>,
    stderr: Gathered<'a>,
}

/// A program that exited.
struct Ended {
    status: ExitStatus,
    /// Whether its pipes are closed.
    is_all_read: bool,
}

/// Why a program was not awaited to its end.
enum Stopped {
    /// It took longer than this. It may have exited after it was terminated.
    TooLate(Duration, Option<ExitStatus>),
    /// It wrote too much.
    TooMuch(Stream),
    /// The program, its guard or its output failed.
    Failed(ItemFailure),
}

impl From<ReadError> for Stopped {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TooMuch(stream) => Self::TooMuch(stream),
            ReadError::Failed(error) => Self::Failed(error.into()),
        }
    }
}

impl Invocation<'_> {
    /// Runs the program. Dropping the future kills it and its children. So does a failure: no child
    /// may run beside the next try.
    pub(super) async fn run(self) -> Result<Left, Failed> {
        if self.attempt > 1 {
            self.spill.discard(self.assignment, self.sequence);
        }
        let start = Instant::now();
        let mut group = self.guard.take().map_err(|error| unguarded(&error))?;
        let mut pipes = match self.spawn(&mut group).await {
            Ok(pipes) => pipes,
            Err(failed) => {
                self.guard.put_back(group);
                return Err(failed);
            }
        };
        let gathered = |stream| {
            let max = self.limits.max_output();
            Gathered::new(self.spill, self.assignment, self.sequence, stream, max)
        };
        let (stdout, stderr) = (gathered(Stream::Stdout), gathered(Stream::Stderr));
        let mut outputs = Outputs { stdout, stderr };
        let ended = self.wait(&mut group, &mut pipes, &mut outputs).await;
        let took = start.elapsed();
        let is_clean = matches!(&ended, Ok(ended) if ended.status.success() && ended.is_all_read);
        // A guard that was killed is not used again.
        let is_over = is_clean || group.clear().await.is_ok();
        if is_over {
            self.guard.put_back(group);
        }
        if let Err(Stopped::TooLate(..) | Stopped::TooMuch(_)) = &ended {
            // What was written before the end.
            let Pipes { stdout, stderr, .. } = &mut pipes;
            let rest =
                async { tokio::join!(outputs.stdout.read(stdout), outputs.stderr.read(stderr)) };
            let _unread = timeout(LEFTOVER_WAIT, rest).await;
        }
        let (status, failure) = self.judge(ended, is_over, outputs.stderr.end())?;
        let unstored = |error: OutputError| Failed::from(ItemFailure::from(error));
        let stdout = outputs.stdout.finish().await.map_err(unstored)?;
        let stderr = outputs.stderr.finish().await.map_err(unstored)?;
        let left = Left { took, status, stdout, stderr };
        match failure {
            None => Ok(left),
            Some(failure) => Err(Failed { left: Some(Box::new(left)), ..failure.into() }),
        }
    }

    /// How a program ended, and the failure of its items. An error is one of the worker.
    fn judge(
        &self,
        ended: Result<Ended, Stopped>,
        is_over: bool,
        stderr: &[u8],
    ) -> Result<(Option<ExitStatus>, Option<ItemFailure>), Failed> {
        // What is left of it was killed.
        let killed = is_over.then(|| ExitStatus::from_raw(Signal::KILL.as_raw()));
        let because = |why| Some(ItemFailure::retryable(with_stderr(why, stderr)));
        Ok(match ended {
            Ok(Ended { status, .. }) if status.success() => (Some(status), None),
            Ok(Ended { status, .. }) => (Some(status), because(describe(status))),
            Err(Stopped::TooLate(limit, status)) => (status.or(killed), because(timed_out(limit))),
            Err(Stopped::TooMuch(stream)) => {
                let why = wrote_too_much(self.limits.max_output(), stream.name());
                (killed, Some(ItemFailure::retryable(why)))
            }
            Err(Stopped::Failed(failure)) if failure.cause == FailureCause::Worker => {
                return Err(failure.into());
            }
            Err(Stopped::Failed(failure)) => (None, Some(failure)),
        })
    }

    /// Waits for the program to exit. When its time is over, it and its children get SIGTERM, and
    /// some time to end.
    async fn wait(
        &self,
        group: &mut Group,
        pipes: &mut Pipes,
        outputs: &mut Outputs<'_>,
    ) -> Result<Ended, Stopped> {
        let Some(limit) = self.limits.timeout() else {
            return self.watch(group, pipes, outputs).await;
        };
        if let Ok(ended) = timeout(limit, self.watch(group, pipes, outputs)).await {
            return ended;
        }
        pipes.stdin = None;
        // A program that ends may write.
        let read = async {
            let Pipes { stdout, stderr, .. } = pipes;
            match tokio::try_join!(outputs.stdout.read(stdout), outputs.stderr.read(stderr)) {
                Ok(_) => std::future::pending().await,
                Err(stopped) => stopped,
            }
        };
        tokio::select! {
            biased;
            stopped = read => Err(stopped.into()),
            exited = group.terminate(self.limits.kill_after()) => {
                Err(Stopped::TooLate(limit, exited.unwrap_or_default()))
            }
        }
    }

    /// Waits for the program to exit and for its pipes to close, for a limited time. Returns at
    /// once if its output cannot be stored: a program whose output is not read may never exit.
    async fn watch(
        &self,
        group: &mut Group,
        pipes: &mut Pipes,
        outputs: &mut Outputs<'_>,
    ) -> Result<Ended, Stopped> {
        let Pipes { stdin, stdout, stderr } = pipes;
        let feed = async {
            if let (Some(mut stdin), Some(input)) = (stdin.take(), &self.input) {
                // A program may exit without reading all its input.
                let _closed = stdin.write_all(input).await;
            }
            Ok::<(), ReadError>(())
        };
        let Outputs { stdout: output, stderr: error_output } = outputs;
        let mut pipes =
            pin!(async { tokio::try_join!(output.read(stdout), error_output.read(stderr), feed) });
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
        let status = status.map_err(|error| Stopped::Failed(unguarded(&error)))?;
        Ok(Ended { status, is_all_read })
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
        let without = |error: io::Error| without_program(&error, error.to_string());
        let (pipes, descriptors) = Pipes::new(self.input.is_some()).map_err(without)?;
        let (program, arguments) = (self.program.to_owned(), self.arguments.clone());
        match group.start(Launch { program, arguments, variables, descriptors }).await {
            Ok(()) => Ok(pipes),
            Err(StartError::Program(error)) => Err(not_started(self.program, &error)),
            Err(StartError::Guard(error)) => Err(unguarded(&error).into()),
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

/// An exit status as text.
pub(super) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "unknown exit status".to_owned(),
    }
}

/// What went wrong, and the end of stderr.
pub(super) fn with_stderr(how: String, stderr: &[u8]) -> String {
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
            let failure = ItemFailure::permanent(ParkReason::Other, detail);
            Failed { has_bad_arguments: true, ..failure.into() }
        }
        _ => without_program(error, detail).into(),
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

    fn failure_of(failed: Failed) -> ItemFailure {
        let item = Item::row(b"k".to_vec(), 0, "a");
        failed.for_each([&item].into_iter(), |_, _, _| Vec::new()).next().unwrap()
    }

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
            let failure = failure_of(failed);
            assert_eq!((failure.cause, failure.is_retryable), (FailureCause::Worker, is_retryable));
        }
        let too_long = not_started(OsStr::new("tool"), &Errno::TOOBIG.into());
        assert!(too_long.has_bad_arguments);
        assert_eq!(failure_of(too_long).cause, FailureCause::Item);
    }
}
