//! How far a run has come, as a whole.

use shardwright_contracts::{LogicalTime, RunId};

use crate::error::reason::RunUnfinished;
use crate::record::ShardState;
use crate::status::ShardStatus;

/// Counts of a run's shards, and the key below which everything is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunProgress {
    /// Shards being worked on or waiting for it.
    pub active: u32,
    /// Finished shards.
    pub done: u32,
    /// Shards that their children replaced.
    pub split: u32,
    /// Parked shards.
    pub parked: u32,
    /// Active shards that somebody holds.
    pub leased: u32,
    /// Everything in the manifest below this key is done. Absent as long as there is no shard.
    pub watermark: Option<Box<[u8]>>,
}

impl RunProgress {
    /// Counts shards, and finds the least key that may not be done.
    pub fn of<'s, const LOG: usize, S: ShardState<LOG> + 's>(
        shards: impl IntoIterator<Item = &'s S>,
        now: LogicalTime,
    ) -> Self {
        let mut progress = Self::default();
        let mut unfinished: Option<&[u8]> = None;
        let mut last_end: Option<&[u8]> = None;
        for shard in shards {
            progress.count(shard, now);
            let spec = shard.spec();
            last_end = last_end.max(Some(spec.end()));
            if matches!(shard.head().status, ShardStatus::Active | ShardStatus::Parked) {
                let reached = shard.cursor().last_key().unwrap_or(spec.start());
                unfinished = Some(unfinished.map_or(reached, |least| least.min(reached)));
            }
        }
        progress.watermark = unfinished.or(last_end).map(Into::into);
        progress
    }

    fn count<const LOG: usize>(&mut self, shard: &impl ShardState<LOG>, now: LogicalTime) {
        let head = shard.head();
        match head.status {
            ShardStatus::Active => self.active += 1,
            ShardStatus::Done => self.done += 1,
            ShardStatus::Split => self.split += 1,
            ShardStatus::Parked => self.parked += 1,
        }
        self.leased += u32::from(head.lease.is_some_and(|holder| !holder.is_expired(now)));
    }

    /// How many shards there are.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.active + self.done + self.split + self.parked
    }

    /// The refusal to end a run that is not finished.
    pub(crate) const fn unfinished(&self, run: RunId) -> RunUnfinished {
        RunUnfinished { run, active: self.active, parked: self.parked }
    }
}

/// Whether a run can end, going by its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunTerminalEvaluation {
    /// Shards are being worked on or wait for it.
    StillActive,
    /// Everything has settled, and some shards are parked.
    HasFailures,
    /// Everything is done.
    AllDone,
}

/// Whether a run can end, going by its shards.
#[must_use]
pub const fn evaluate_run_terminal(progress: &RunProgress) -> RunTerminalEvaluation {
    if progress.active > 0 || progress.total() == 0 {
        RunTerminalEvaluation::StillActive
    } else if progress.parked > 0 {
        RunTerminalEvaluation::HasFailures
    } else {
        RunTerminalEvaluation::AllDone
    }
}
