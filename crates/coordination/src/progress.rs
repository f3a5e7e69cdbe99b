//! The progress of a run.

use std::fmt;

use shardwright_contracts::{CursorUpdate, Redacted, RunId, ShardSpecRef};

use crate::error::reason::RunUnfinished;
use crate::lease::{OwnerLiveness, TakeoverTerms};
use crate::record::ShardHead;
use crate::status::ShardStatus;

/// Counts of a run's shards, and the watermark.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RunProgress {
    /// Active shards, held or available.
    pub active: u32,
    /// Shards that are done.
    pub done: u32,
    /// Shards that were replaced by children.
    pub split: u32,
    /// Parked shards.
    pub parked: u32,
    /// Active shards with a holder that a claim has to respect.
    pub leased: u32,
    /// All keys of the manifest below this one are done. `None` if there is no shard.
    pub watermark: Option<Box<[u8]>>,
}

/// The watermark is a user's key, so it stays out of logs.
impl fmt::Debug for RunProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { active, done, split, parked, leased, watermark } = self;
        f.debug_struct("RunProgress")
            .field("active", active)
            .field("done", done)
            .field("split", split)
            .field("parked", parked)
            .field("leased", leased)
            .field("watermark", &watermark.as_deref().map(Redacted))
            .finish()
    }
}

/// Counts the shards of a run one by one and stores none of them.
pub struct ProgressCounter {
    terms: TakeoverTerms,
    progress: RunProgress,
    /// The least key that may be unfinished.
    unfinished: Option<Box<[u8]>>,
    last_end: Option<Box<[u8]>>,
}

impl fmt::Debug for ProgressCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressCounter")
            .field("terms", &self.terms)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

impl ProgressCounter {
    /// An empty counter. A lease counts while a claim has to respect it.
    #[must_use]
    pub const fn new(terms: TakeoverTerms) -> Self {
        let progress =
            RunProgress { active: 0, done: 0, split: 0, parked: 0, leased: 0, watermark: None };
        Self { terms, progress, unfinished: None, last_end: None }
    }

    /// Counts a shard.
    pub fn add<const LOG: usize>(
        &mut self,
        head: &ShardHead<LOG>,
        owner: OwnerLiveness,
        spec: ShardSpecRef<'_>,
        cursor: CursorUpdate<'_>,
    ) {
        let progress = &mut self.progress;
        match head.status {
            ShardStatus::Active => progress.active += 1,
            ShardStatus::Done => progress.done += 1,
            ShardStatus::Split => progress.split += 1,
            ShardStatus::Parked => progress.parked += 1,
        }
        let holder = head.respected_holder(&self.terms, owner);
        progress.leased += u32::from(holder.is_some());
        if self.last_end.as_deref().is_none_or(|last| last < spec.end()) {
            self.last_end = Some(spec.end().into());
        }
        if matches!(head.status, ShardStatus::Active | ShardStatus::Parked) {
            let reached = cursor.last_key().unwrap_or(spec.start());
            if self.unfinished.as_deref().is_none_or(|least| least > reached) {
                self.unfinished = Some(reached.into());
            }
        }
    }

    /// The counts, with a watermark not below `before`. The watermark never decreases, even if a
    /// split repeats some work.
    #[must_use]
    pub fn finish(self, before: Option<&[u8]>) -> RunProgress {
        let reached = self.unfinished.or(self.last_end);
        let watermark = match before {
            Some(before) if reached.as_deref() < Some(before) => Some(before.into()),
            Some(_) | None => reached,
        };
        RunProgress { watermark, ..self.progress }
    }
}

impl RunProgress {
    /// The number of shards.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.active + self.done + self.split + self.parked
    }

    /// The refusal to complete an unfinished run.
    pub(crate) const fn unfinished(&self, run: RunId) -> RunUnfinished {
        RunUnfinished { run, active: self.active, parked: self.parked }
    }
}

/// Whether the shards of a run allow its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunTerminalEvaluation {
    /// Some shards are active.
    StillActive,
    /// No shard is active, and some are parked.
    HasFailures,
    /// All shards are done or split.
    AllDone,
}

/// Whether the shards of a run allow its end.
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

#[cfg(test)]
mod tests {
    use shardwright_contracts::{
        CursorSemantics, FenceEpoch, LogicalTime, ShardId, ShardKey, TenantId, WorkerId,
    };

    use super::*;
    use crate::lease::LeaseHolder;

    fn head(status: ShardStatus) -> ShardHead {
        let key = ShardKey::new(RunId::from_raw(1), ShardId::from_raw(1));
        let tenant = TenantId::from_bytes([0; 32]);
        ShardHead { status, ..ShardHead::new(tenant, key, None, CursorSemantics::Completed) }
    }

    fn watermark(
        shards: &[(ShardStatus, &'static str, &'static str, Option<&'static str>)],
    ) -> String {
        let mut counter = ProgressCounter::new(at(0, 1));
        for (status, start, end, last_key) in shards {
            let spec = ShardSpecRef::new(start.as_bytes(), end.as_bytes(), b"");
            let cursor = CursorUpdate::new(last_key.map(str::as_bytes), None);
            counter.add(&head(*status), OwnerLiveness::Untracked, spec, cursor);
        }
        let watermark = counter.finish(None).watermark.unwrap();
        String::from_utf8(watermark.into()).unwrap()
    }

    #[test]
    fn watermark_is_the_least_unfinished_key() {
        use ShardStatus::{Active, Done, Parked, Split};
        assert_eq!(watermark(&[(Active, "b", "m", None), (Active, "m", "z", Some("p"))]), "b");
        assert_eq!(watermark(&[(Active, "b", "m", Some("c")), (Done, "m", "z", None)]), "c");
        assert_eq!(watermark(&[(Done, "b", "m", Some("c")), (Active, "m", "z", None)]), "m");
        assert_eq!(watermark(&[(Parked, "b", "m", Some("c")), (Done, "m", "z", None)]), "c");
        assert_eq!(watermark(&[(Split, "b", "z", None), (Active, "m", "z", None)]), "m");
        assert_eq!(watermark(&[(Done, "m", "z", None), (Done, "b", "m", None)]), "z");
    }

    #[test]
    fn watermark_never_goes_back() {
        let mut counter = ProgressCounter::new(at(0, 1));
        let spec = ShardSpecRef::new(b"b", b"m", b"");
        let head = head(ShardStatus::Active);
        counter.add(&head, OwnerLiveness::Untracked, spec, CursorUpdate::initial());
        assert_eq!(counter.finish(Some(b"g")).watermark.as_deref(), Some(&b"g"[..]));
        let nothing = ProgressCounter::new(at(0, 1));
        assert_eq!(nothing.finish(None).watermark, None);
    }

    /// Five milliseconds of skew are allowed.
    fn at(now: u64, floor: u64) -> TakeoverTerms {
        let fence_floor = FenceEpoch::from_raw(floor).unwrap();
        TakeoverTerms { now: LogicalTime::from_millis(now), fence_floor, skew_ms: 5 }
    }

    #[test]
    fn shards_are_counted_by_state_and_respected_leases() {
        use OwnerLiveness::{Gone, Live, Untracked};
        for (terms, owner, leased) in [
            (at(9, 2), Untracked, 1),
            (at(14, 2), Live, 1),
            (at(15, 2), Live, 0),
            (at(15, 2), Untracked, 0),
            (at(9, 2), Gone, 0),
            (at(9, 3), Live, 0),
        ] {
            let mut counter = ProgressCounter::new(terms);
            for status in ShardStatus::ALL {
                let mut head = head(*status);
                if *status == ShardStatus::Active {
                    let deadline = LogicalTime::from_millis(10);
                    head.lease = Some(LeaseHolder { owner: WorkerId::from_raw(1), deadline });
                    head.fence = FenceEpoch::from_raw(2).unwrap();
                }
                let spec = ShardSpecRef::new(b"b", b"m", b"");
                counter.add(&head, owner, spec, CursorUpdate::initial());
            }
            let progress = counter.finish(None);
            let counts = (progress.active, progress.done, progress.split, progress.parked);
            assert_eq!((counts, progress.leased, progress.total()), ((1, 1, 1, 1), leased, 4));
        }
    }

    #[test]
    fn run_can_end_without_active_or_parked_shards() {
        let evaluate = |active, parked, done| {
            let progress = RunProgress { active, parked, done, ..RunProgress::default() };
            evaluate_run_terminal(&progress)
        };
        assert_eq!(evaluate(1, 1, 1), RunTerminalEvaluation::StillActive);
        assert_eq!(evaluate(0, 1, 1), RunTerminalEvaluation::HasFailures);
        assert_eq!(evaluate(0, 0, 1), RunTerminalEvaluation::AllDone);
        assert_eq!(evaluate(0, 0, 0), RunTerminalEvaluation::StillActive);
    }
}
