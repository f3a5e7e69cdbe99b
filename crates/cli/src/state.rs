//! The state of a run, derived from its status and its shards.

use std::fmt;

use shardwright_coordination::{RunProgress, RunRecord, RunStatus};

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has a name, but no record.
    NotBegun,
    /// Its shards are being registered.
    Beginning,
    /// Workers hold shards, one shard each.
    Running {
        workers: u32,
    },
    /// Shards are active, but no worker holds one.
    Interrupted,
    Paused,
    /// All other shards are done. The parked ones wait for an operator.
    DoneButParked {
        parked: u32,
    },
    Done,
    Failed,
    Cancelled,
    /// A stored record of the run cannot be decoded.
    Damaged,
}

impl State {
    pub(crate) const fn of(record: &RunRecord, progress: &RunProgress) -> Self {
        match record.status {
            RunStatus::Initializing => Self::Beginning,
            RunStatus::Done => Self::Done,
            RunStatus::Failed => Self::Failed,
            RunStatus::Cancelled => Self::Cancelled,
            RunStatus::Active if record.paused => Self::Paused,
            RunStatus::Active => Self::of_active(progress),
        }
    }

    const fn of_active(progress: &RunProgress) -> Self {
        match (progress.active, progress.leased, progress.parked) {
            (0, _, parked @ 1..) => Self::DoneButParked { parked },
            (_, 0, _) => Self::Interrupted,
            (_, workers, _) => Self::Running { workers },
        }
    }

    /// The state in JSON.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::NotBegun => "not_begun",
            Self::Beginning => "beginning",
            Self::Running { .. } => "running",
            Self::Interrupted => "interrupted",
            Self::Paused => "paused",
            Self::DoneButParked { .. } => "done_but_parked",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Damaged => "damaged",
        }
    }

    /// Whether the run will process no further shards.
    pub(crate) const fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBegun => f.pad("not started"),
            Self::Beginning => f.pad("starting"),
            Self::Running { workers: 1 } => f.pad("running (1 worker)"),
            Self::Running { workers } => f.pad(&format!("running ({workers} workers)")),
            Self::Interrupted => f.pad("interrupted"),
            Self::DoneButParked { parked } => f.pad(&format!("done, {parked} parked")),
            state => f.pad(state.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_run_is_running_interrupted_or_parked() {
        for (active, leased, parked, text) in [
            (8, 2, 1, "running (2 workers)"),
            (8, 1, 0, "running (1 worker)"),
            (8, 0, 3, "interrupted"),
            (0, 0, 3, "done, 3 parked"),
        ] {
            let progress = RunProgress { active, leased, parked, ..RunProgress::default() };
            assert_eq!(State::of_active(&progress).to_string(), text);
        }
    }
}
