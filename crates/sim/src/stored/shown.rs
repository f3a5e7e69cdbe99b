//! What answers show, compared with the history.
//!
//! Runs, lists and progress are read from the store, so they were true at some moment of the call.
//! Hints, candidates and notices come from a view that follows the store. They may be outdated, but
//! they were true once.

use std::collections::BTreeSet;

use shardwright_contracts::{LogicalTime, ShardId};
use shardwright_coordination::{
    CapacityHint, HolderNotice, IdempotentOutcome, RunProgress, ShardFilter, ShardStatus,
    ShardSummary,
};

use super::answers::{Case, SHOWN, finding};
use super::call_log::{CallLog, Version};
use crate::oracle::Finding;
use crate::request::operation::{CollectClaimCandidates, ListShards};
use crate::request::{Reply, Request, RequestExt};

/// The longest lag of a view: a delayed watch, then a cut link, then a paused process.
const VIEW_BEHIND_MS: u64 = 4_000;

impl CallLog {
    /// Judges what an answer shows.
    pub(super) fn judge_shown(&self, case: &Case<'_>, reply: &Reply) -> Result<(), Finding> {
        let was_so = match reply {
            Reply::Run(shown) => {
                self.was_at_some_time(case, |version| version.record.as_deref() == Some(shown))
            }
            Reply::Progress(shown) => self.was_at_some_time(case, |version| {
                is_progress(shown, &self.shards_with_leases(case, version))
            }),
            Reply::Shards(listed) => match case.request {
                Request::ListShards(ListShards { filter, .. }) => self
                    .was_at_some_time(case, |version| {
                        is_listing(listed, filter, &self.shards_with_leases(case, version))
                    }),
                _ => false,
            },
            Reply::Candidates(shards, outlook) => {
                self.may_be_candidates(case, shards)
                    && self.may_end_first(case, outlook.earliest_deadline)
            }
            Reply::Granted(granted) => self.may_be_hint(case, &granted.capacity),
            Reply::Renewed(renewed) => {
                self.may_be_hint(case, &renewed.capacity)
                    && self.may_be_noticed(case, renewed.notice)
            }
            Reply::Noticed(IdempotentOutcome::Replayed(notice)) => notice.is_none(),
            Reply::Noticed(IdempotentOutcome::Executed(notice)) => {
                self.may_be_noticed(case, *notice)
            }
            // These show nothing. Their effects are judged elsewhere.
            _ => true,
        };
        if was_so {
            return Ok(());
        }
        let name = case.request.label();
        Err(finding(SHOWN, format!("{name} was answered {reply:?}, which was never true")))
    }

    fn was_at_some_time(&self, case: &Case<'_>, was_so: impl Fn(&Version) -> bool) -> bool {
        self.versions_since(case.address, case.from).iter().any(was_so)
    }

    /// The shards of a version, and how an answer may show their leases.
    fn shards_with_leases<'v>(
        &self,
        case: &Case<'_>,
        version: &'v Version,
    ) -> Vec<(&'v ShardSummary, LeaseShown)> {
        let shards = version.shards.iter();
        shards.map(|shard| (shard, self.lease_shown(case, version, shard))).collect()
    }

    /// How an answer may show a lease. It counts until a claim could take it over: while its
    /// session lives, and for the skew allowance after its deadline.
    fn lease_shown(&self, case: &Case<'_>, version: &Version, shard: &ShardSummary) -> LeaseShown {
        let Some(deadline) = shard.lease_deadline else {
            return LeaseShown { may_count: false, may_lack: true };
        };
        let held = |version: &Version| {
            let shard = version.run.as_ref()?.shards.get(&shard.shard)?;
            shard.lease.map(|_| (shard.fence, shard.unbound))
        };
        let fence = held(version).map(|(fence, _)| fence);
        // The owners are read before the shards, but also during the call.
        let versions = self.versions_since(case.address, case.from);
        let of_lease = || versions.iter().filter_map(held).filter(|it| Some(it.0) == fence);
        let over_at = deadline.saturating_add(self.model.skew_ms);
        // A damaged binding counts, because a claim fails on it.
        let is_harmed = self.harmed.contains(&(case.address, shard.shard));
        LeaseShown {
            may_count: is_harmed || of_lease().any(|(_, is_unbound)| !is_unbound),
            may_lack: over_at <= case.times[1] || of_lease().any(|(_, is_unbound)| is_unbound),
        }
    }

    /// The versions of a run that a view may show.
    fn viewed(&self, case: &Case<'_>) -> &[Version] {
        let versions = self.versions.get(&case.address).map(Vec::as_slice).unwrap_or_default();
        let since_ms = self.now_ms().saturating_sub(VIEW_BEHIND_MS);
        let later = versions.partition_point(|version| version.at_ms <= since_ms);
        versions.get(later.saturating_sub(1)..).unwrap_or_default()
    }

    /// Candidates were active recently, and are no more than requested.
    fn may_be_candidates(&self, case: &Case<'_>, shown: &[ShardId]) -> bool {
        let Request::CollectClaimCandidates(CollectClaimCandidates { limit, .. }) = case.request
        else {
            return false;
        };
        let viewed = self.viewed(case);
        let was_active = |id: &ShardId| {
            let is_it =
                |shard: &ShardSummary| shard.shard == *id && shard.status == ShardStatus::Active;
            viewed.iter().any(|version| version.shards.iter().any(is_it))
        };
        let distinct: BTreeSet<_> = shown.iter().collect();
        shown.len() <= *limit && distinct.len() == shown.len() && shown.iter().all(was_active)
    }

    fn may_be_hint(&self, case: &Case<'_>, shown: &CapacityHint) -> bool {
        let most = self.viewed(case).iter().map(|version| version.shards.len()).max();
        let workers = self.model.tenants.get(&case.address.0).map_or(0, |tenant| tenant.workers);
        let is_ahead = shown.earliest_deadline.is_none_or(|end| end > case.times[0]);
        shown.available_count as usize <= most.unwrap_or_default()
            && shown.waiting_workers <= workers
            && is_ahead
            && self.may_end_first(case, shown.earliest_deadline)
    }

    /// A lease lasts at most for the run's lease duration. After its deadline, its shard is
    /// protected for at most the skew allowance.
    pub(super) fn may_end_first(&self, case: &Case<'_>, shown: Option<LogicalTime>) -> bool {
        let Some(shown) = shown else { return true };
        let longest = self.viewed(case).iter().filter_map(|version| version.run.as_ref());
        let longest = longest.map(|run| run.config.lease_duration_ms.get()).max();
        longest.is_some_and(|lease_ms| {
            shown <= case.times[1].saturating_add(lease_ms).saturating_add(self.model.skew_ms)
        })
    }

    /// A holder is notified of a pause of its run and of its own split request. A notice that could
    /// not be read is absent.
    fn may_be_noticed(&self, case: &Case<'_>, shown: Option<HolderNotice>) -> bool {
        let Some(HolderNotice { paused, split_request }) = shown else { return true };
        let runs = self.viewed(case).iter().filter_map(|version| version.run.as_ref());
        let was_so = runs.into_iter().any(|run| run.paused == paused);
        was_so && split_request.is_none_or(|request| self.was_requested(case, &request))
    }
}

const STATUSES: [ShardStatus; 4] =
    [ShardStatus::Active, ShardStatus::Done, ShardStatus::Split, ShardStatus::Parked];

/// How an answer may show the lease of a shard.
#[derive(Clone, Copy)]
struct LeaseShown {
    may_count: bool,
    may_lack: bool,
}

/// Whether the counts are right.
fn is_progress(shown: &RunProgress, shards: &[(&ShardSummary, LeaseShown)]) -> bool {
    let count = |is_counted: &dyn Fn(&ShardSummary, LeaseShown) -> bool| {
        shards.iter().filter(|(shard, lease)| is_counted(shard, *lease)).count() as u32
    };
    let counts = STATUSES.map(|status| count(&|shard, _| shard.status == status));
    let (least, most) = (count(&|_, lease| !lease.may_lack), count(&|_, lease| lease.may_count));
    counts == [shown.active, shown.done, shown.split, shown.parked]
        && (least..=most).contains(&shown.leased)
}

/// Whether a list contains exactly the shards that a filter admits, in order.
fn is_listing(
    listed: &[ShardSummary],
    filter: &ShardFilter,
    shards: &[(&ShardSummary, LeaseShown)],
) -> bool {
    let but_for_leases = ShardFilter { is_leased: None, ..*filter };
    let passing = || shards.iter().filter(|(shard, _)| but_for_leases.admits(shard));
    let is_shown = |shard: &ShardSummary| listed.iter().any(|shown| shown.shard == shard.shard);
    let may_miss = |lease: &LeaseShown| match filter.is_leased {
        None => false,
        Some(true) => lease.may_lack,
        Some(false) => lease.may_count,
    };
    listed.is_sorted_by_key(|shard| (&shard.start, shard.shard))
        && listed.iter().all(|shown| {
            filter.admits(shown) && passing().any(|(shard, lease)| is_same(shown, shard, *lease))
        })
        && passing().all(|(shard, lease)| is_shown(shard) || may_miss(lease))
}

/// Whether a shard is shown as it was.
fn is_same(shown: &ShardSummary, was: &ShardSummary, lease: LeaseShown) -> bool {
    let is_lease_true = match shown.lease_deadline {
        Some(deadline) => lease.may_count && was.lease_deadline == Some(deadline),
        None => lease.may_lack,
    };
    is_lease_true && *shown == ShardSummary { lease_deadline: shown.lease_deadline, ..was.clone() }
}
