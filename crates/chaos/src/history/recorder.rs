use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

use super::{Action, Effect, Line, Outcome};

/// Writes a process's history. A line is with the system once it is written, and outlives the
/// process.
#[derive(Debug)]
pub struct Recorder {
    file: Mutex<File>,
    calls: AtomicU64,
}

impl Recorder {
    /// Begins a history.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create_new(true).append(true).open(path)?;
        Ok(Self { file: Mutex::new(file), calls: AtomicU64::new(0) })
    }

    /// Writes a call down before it is made, and gives its number.
    pub fn call(&self, worker: u64, run: u64, action: Action) -> io::Result<u64> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        self.line(&Line::Call { call, at: now(), worker, run, action })?;
        Ok(call)
    }

    /// Writes the answer to a call down, once it is there.
    pub fn answer(&self, call: u64, outcome: Outcome) -> io::Result<()> {
        self.line(&Line::Return { call, at: now(), outcome })
    }

    /// Writes down that keys have been processed.
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

/// Nanoseconds since the machine was started, the same for every process.
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec).unwrap_or_default()
}
