use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

use super::{Action, Effect, Line, Outcome};

/// Writes a process's history. Each line is passed to the kernel at once, so it survives a kill of
/// the process.
#[derive(Debug)]
pub struct Recorder {
    file: Mutex<File>,
    calls: AtomicU64,
}

impl Recorder {
    /// Creates a history file.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create_new(true).append(true).open(path)?;
        Ok(Self { file: Mutex::new(file), calls: AtomicU64::new(0) })
    }

    /// Records a call before it is made. Returns its number.
    pub fn call(&self, worker: u64, run: u64, action: Action) -> io::Result<u64> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        self.line(&Line::Call { call, at: now(), worker, run, action })?;
        Ok(call)
    }

    /// Records the answer to a call.
    pub fn answer(&self, call: u64, outcome: Outcome) -> io::Result<()> {
        self.line(&Line::Return { call, at: now(), outcome })
    }

    /// Records processed keys.
    pub fn effect(&self, effect: Effect) -> io::Result<()> {
        self.line(&Line::Effect(effect))
    }

    fn line(&self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let mut file = self.file.lock().map_err(|_| io::Error::other("a writer has panicked"))?;
        file.write_all(&text)
    }
}

/// Nanoseconds of the monotonic clock, which all processes of the machine share.
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec).unwrap_or_default()
}
