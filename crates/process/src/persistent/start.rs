//! Starting a persistent program, and supervising it until it exits.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memchr::memchr;
use shardwright_contracts::{RunId, WorkerId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::PersistentError;
use super::link::Link;
use super::message;
use crate::guard::{Group, Launch, ProcessGuard, StartError};
use crate::limits::Limits;
use crate::output::{END_BYTES, LOG_MODE, create};
use crate::slots::{Slot, Slots};
use crate::template::Template;

/// The descriptor from which a program reads messages.
const READ_FD: u8 = 3;
/// The descriptor to which a program writes messages.
const WRITE_FD: u8 = 4;
/// Longest line of a program.
pub(super) const MAX_LINE: usize = 1 << 20;
const CHUNK_BYTES: usize = 64 * 1_024;
/// Timeout of the hello. A program may have much to load before it.
const HELLO_WAIT: Duration = Duration::from_secs(30);
/// Time for a program to exit after it closed its output.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// A program, and how to start it.
pub(super) struct Program {
    pub(super) template: Template,
    pub(super) guard: Arc<ProcessGuard>,
    /// The folder for stdout and stderr of programs.
    pub(super) logs: PathBuf,
    pub(super) grace: Duration,
    pub(super) limits: Limits,
    pub(super) slots: Slots,
}

impl Program {
    /// Starts the program, and waits for its hello.
    pub(super) async fn start(
        &self,
        run: RunId,
        worker: WorkerId,
    ) -> Result<Arc<Link>, PersistentError> {
        let descriptors = PersistentError::Descriptors;
        let (theirs_to_read, ours_to_write) = io::pipe().map_err(descriptors)?;
        let (ours_to_read, theirs_to_write) = io::pipe().map_err(descriptors)?;
        let path = self.logs.join(format!("{:016x}.log", worker.as_raw()));
        let log = open_log(&path).map_err(descriptors)?;
        let (ours_of_stderr, stderr) = io::pipe().map_err(descriptors)?;
        let slot = self.slots.take();
        let unnumbered = |_| descriptors(io::ErrorKind::InvalidInput.into());
        let launch = Launch {
            program: self.template.program().to_owned(),
            arguments: self.template.for_items(&[], slot.number).map_err(unnumbered)?,
            variables: vec![
                ("SHARDWRIGHT_PROTOCOL", message::VERSION.to_string().into()),
                ("SHARDWRIGHT_RUN", format!("{:016x}", run.as_raw()).into()),
            ],
            descriptors: vec![
                (1, log.try_clone().map_err(descriptors)?.into()),
                (2, stderr.into()),
                (READ_FD, theirs_to_read.into()),
                (WRITE_FD, theirs_to_write.into()),
            ],
        };
        // Dropping the group kills the program and its children.
        let mut group = self.guard.take()?;
        group.start(launch).await.map_err(|error| match error {
            StartError::Guard(error) => error.into(),
            StartError::Program(error) => {
                let program = self.template.program().display().to_string();
                PersistentError::Start { program, error }
            }
        })?;
        let to = Sender::from_owned_fd(ours_to_write.into()).map_err(descriptors)?;
        let from = Receiver::from_owned_fd(ours_to_read.into()).map_err(descriptors)?;
        let stderr = Receiver::from_owned_fd(ours_of_stderr.into()).map_err(descriptors)?;
        let (hello, is_ready) = oneshot::channel();
        let mut first_line = Vec::new();
        message::hello(&mut first_line, run);
        let link = Arc::new(Link::new(self.grace, self.limits.timeout(), hello, first_line));
        tokio::spawn(write_lines(Arc::clone(&link), to));
        let running = Running { group, from, stderr, log, log_path: path, slot };
        let kill_after = self.limits.kill_after();
        tokio::spawn(supervise(Arc::clone(&link), running, kill_after));
        self.is_ready(&link, is_ready).await?;
        Ok(link)
    }

    async fn is_ready(
        &self,
        link: &Link,
        is_ready: oneshot::Receiver<()>,
    ) -> Result<(), PersistentError> {
        let seconds = HELLO_WAIT.as_secs();
        let mut unready = Unready(Some(link));
        match timeout(HELLO_WAIT, is_ready).await {
            Ok(Ok(())) => {
                unready.0 = None;
                return Ok(());
            }
            Ok(Err(_)) => {}
            Err(_) => link.end(PersistentError::NoHello { seconds }),
        }
        // Only this task has the link.
        link.is_gone.notified().await;
        let ended = link.take_ended();
        Err(ended.unwrap_or(PersistentError::NoHello { seconds }))
    }
}

/// A program that has not sent its hello. Ends it when dropped, because nothing else has its link.
struct Unready<'l>(Option<&'l Link>);

impl Drop for Unready<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.0 {
            link.end(PersistentError::Closed);
        }
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    create(path, LOG_MODE, File::options().append(true))
}

/// Writes pending messages, all that there are at once.
async fn write_lines(link: Arc<Link>, mut to: Sender) {
    while let Some(lines) = link.take_output() {
        if lines.is_empty() {
            link.to_write.notified().await;
        } else if to.write_all(&lines).await.is_err() {
            // It closed its input. The supervising task learns why.
            return;
        }
    }
}

/// A program that runs, and its pipes.
struct Running {
    group: Group,
    from: Receiver,
    stderr: Receiver,
    log: File,
    log_path: PathBuf,
    /// Taken until the program has exited.
    slot: Slot,
}

/// Supervises a program until it exits, or kills it.
async fn supervise(link: Arc<Link>, running: Running, kill_after: Duration) {
    let Running { mut group, from, stderr, log, log_path, slot } = running;
    let stderr_end = Arc::new(Mutex::new(Vec::new()));
    let mut stderr_read = tokio::spawn(keep_end(stderr, Arc::clone(&stderr_end), log));
    let failed = tokio::select! {
        biased;
        error = read_lines(&link, from) => Some(error),
        limit = link.timed_out() => {
            // Its items are retried after it has ended.
            let _ended = group.terminate(kill_after).await;
            let _killed = group.clear().await;
            Some(PersistentError::TimedOut { limit })
        }
        () = link.is_over.notified() => None,
    };
    if let Some(error) = failed {
        let status = match error {
            // The exit status explains it.
            PersistentError::Closed => timeout(EXIT_WAIT, group.exited()).await.ok(),
            _ => None,
        };
        link.end(match status {
            Some(Ok(status)) => {
                let _all_read = timeout(EXIT_WAIT / 5, &mut stderr_read).await;
                let stderr = stderr_end.lock().unwrap_or_else(PoisonError::into_inner);
                PersistentError::Ended { status, stderr: stderr.clone() }
            }
            Some(Err(_)) | None => error,
        });
    }
    let _killed = group.clear().await;
    drop(group);
    drop(slot);
    if fs::metadata(&log_path).is_ok_and(|log| log.len() == 0) {
        let _untidy = fs::remove_file(&log_path);
    }
    link.is_gone.notify_one();
}

/// Receives messages of the program, until one is invalid or the output is closed.
async fn read_lines(link: &Link, mut from: Receiver) -> PersistentError {
    let mut buffer = Vec::with_capacity(CHUNK_BYTES);
    let mut scanned = 0;
    loop {
        match from.read_buf(&mut buffer).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return PersistentError::Closed,
        }
        let mut rest = buffer.as_slice();
        let lines = std::iter::from_fn(|| {
            let end = scanned + memchr(b'\n', rest.get(scanned..)?)?;
            let (line, after) = (rest.get(..end)?, rest.get(end + 1..)?);
            (rest, scanned) = (after, 0);
            Some(line)
        });
        if let Err(error) = link.receive(lines) {
            return error;
        }
        scanned = rest.len();
        let taken = buffer.len() - rest.len();
        if scanned > MAX_LINE {
            return PersistentError::TooLong { limit: MAX_LINE };
        }
        buffer.drain(..taken);
    }
}

/// Copies stderr to the log, and keeps its end.
async fn keep_end(mut stderr: Receiver, last: Arc<Mutex<Vec<u8>>>, mut log: File) {
    let mut buffer = Vec::with_capacity(CHUNK_BYTES);
    while let Ok(1..) = stderr.read_buf(&mut buffer).await {
        // A full disk does not stop the work.
        let _unwritten = log.write_all(&buffer);
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        last.extend_from_slice(&buffer);
        let extra = last.len().saturating_sub(END_BYTES);
        last.drain(..extra);
        buffer.clear();
    }
}
