//! How a run is, for people: what it can be expected to do next.

use std::fmt;

use shardwright_coordination::{RunProgress, RunRecord, RunStatus};

/// How a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It was given its name, and nothing else yet.
    NotBegun,
    /// Its shards are being made.
    Beginning,
    /// So many shards are worked on, each by a worker of its own.
    Running {
        workers: u32,
    },
    /// There is something left to do, and nobody does it.
    Interrupted,
    Paused,
    /// What is left waits for a person.
    DoneButParked {
        parked: u32,
    },
    Done,
    Failed,
    Cancelled,
    /// Something that is stored of it cannot be read.
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

    /// A word for programs.
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

    /// Whether shards that are not done will never be.
    pub(crate) const fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBegun => f.pad("not begun"),
            Self::Running { workers: 1 } => f.pad("running (1 worker)"),
            Self::Running { workers } => f.pad(&format!("running ({workers} workers)")),
            Self::Interrupted => f.pad("nobody works on it"),
            Self::DoneButParked { parked } => f.pad(&format!("done but for {parked} parked")),
            state => f.pad(state.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_active_is_worked_on_or_not_or_waits_for_a_person() {
        for (active, leased, parked, told) in [
            (8, 2, 1, "running (2 workers)"),
            (8, 1, 0, "running (1 worker)"),
            (8, 0, 3, "nobody works on it"),
            (0, 0, 3, "done but for 3 parked"),
        ] {
            let progress = RunProgress { active, leased, parked, ..RunProgress::default() };
            assert_eq!(State::of_active(&progress).to_string(), told);
        }
    }
}
