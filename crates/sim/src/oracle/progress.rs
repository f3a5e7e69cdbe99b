//! Oracles of progress and completeness.

use shardwright_contracts::LogicalTime;
use shardwright_coordination::{RunProgress, RunStatus, ShardFilter, ShardStatus, ShardSummary};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::request::operation::{Checkpoint, Complete, ListShards};
use crate::request::{Reply, Request, RequestExt, last_key, spawned};
use crate::visible::RunView;

pub(super) const CURSOR: Oracle = Oracle::before(
    "cursors",
    "an accepted cursor is in its shard's range and never before an earlier one",
    judge_cursor,
);

/// Computed from the listing. A leaf is a shard that no children have replaced.
pub(super) const TILING: Oracle = Oracle::after(
    "tiling",
    "after every registration and split the leaves tile the manifest, with no gap and no overlap",
    judge_tiling,
);

pub(super) const COMPLETENESS: Oracle = Oracle::after(
    "every key processed",
    "when a run is done, accepted work covers every key of its manifest",
    judge_completeness,
);

pub(super) const WATERMARK: Oracle = Oracle::both(
    "watermark",
    "the watermark never moves back, and accepted work covers every key below it",
    never_back,
    all_below_is_done,
);

pub(super) const COUNTERS: Oracle = Oracle::before(
    "counters equal a recount",
    "progress and filtered lists equal a recount of all shards",
    judge_counters,
)
.of_answers();

fn judge_cursor(seen: &Observation<'_>, model: &Model) -> Verdict {
    let (
        Some(_),
        Request::Checkpoint(Checkpoint { cursor, .. }) | Request::Complete(Complete { cursor, .. }),
    ) = (seen.write(), seen.request)
    else {
        return Ok(());
    };
    let Some(shard) = seen.shard(model) else { return Ok(()) };
    let (key, known, spec) = (last_key(cursor), last_key(&shard.cursor), shard.spec.as_ref());
    ensure(key >= known, || format!("cursor {key:?} accepted after {known:?}"))?;
    let inside = key.is_none_or(|key| spec.start() <= key && key < spec.end());
    ensure(inside, || format!("cursor {key:?} accepted in {:?}..{:?}", spec.start(), spec.end()))
}

fn judge_tiling(seen: &Observation<'_>, model: &Model) -> Verdict {
    let makes_shards = seen.executed().is_some_and(|reply| spawned(reply).is_some())
        || (seen.executed().is_some() && seen.request.manifest().is_some());
    let (Some(run), Some(view), true) = (seen.run(model), seen.after, makes_shards) else {
        return Ok(());
    };
    let mut leaves = view.shards.iter().filter(|shard| shard.status != ShardStatus::Split);
    for (start, end) in &run.manifest {
        tile(start, end, &mut leaves)?;
    }
    ensure(leaves.next().is_none(), || "a leaf lies outside the manifest".into())
}

/// Takes leaves in key order until they have covered one range of the manifest.
fn tile<'v>(
    start: &[u8],
    end: &[u8],
    leaves: &mut impl Iterator<Item = &'v ShardSummary>,
) -> Verdict {
    let mut reached = start;
    while reached < end {
        let Some(leaf) = leaves.next() else { return Err(format!("no leaf covers {reached:?}")) };
        ensure(*leaf.start == *reached && *leaf.end > *reached, || {
            format!("{:?}..{:?} follows a leaf that ends at {reached:?}", leaf.start, leaf.end)
        })?;
        reached = &leaf.end;
    }
    ensure(reached == end, || format!("a leaf ends at {reached:?}, the manifest at {end:?}"))
}

fn judge_completeness(seen: &Observation<'_>, model: &Model) -> Verdict {
    let (Some(run), Some(tenant)) = (seen.run(model), model.tenants.get(&seen.tenant)) else {
        return Ok(());
    };
    if seen.executed().is_none() || run.status != RunStatus::Done {
        return Ok(());
    }
    let missed = run.unprocessed(tenant.tag, None);
    ensure(missed.is_empty(), || format!("the run is done, points {missed:?} were not processed"))
}

fn never_back(seen: &Observation<'_>, model: &Model) -> Verdict {
    let (Some(run), Some(view)) = (seen.run(model), seen.after) else { return Ok(()) };
    ensure(view.progress.watermark >= run.watermark, || {
        format!("the watermark went from {:?} to {:?}", run.watermark, view.progress.watermark)
    })
}

fn all_below_is_done(seen: &Observation<'_>, model: &Model) -> Verdict {
    let watermark = |view: &'_ RunView| view.progress.watermark.clone();
    let (Some(run), Some(view)) = (seen.run(model), seen.after) else { return Ok(()) };
    let Some(tenant) = model.tenants.get(&seen.tenant) else { return Ok(()) };
    let Some(mark) = watermark(view) else { return Ok(()) };
    if seen.before.and_then(watermark).as_ref() == Some(&mark) {
        return Ok(());
    }
    let missed = run.unprocessed(tenant.tag, Some(&mark));
    ensure(missed.is_empty(), || format!("points {missed:?} below {mark:?} were not processed"))
}

fn judge_counters(seen: &Observation<'_>, _: &Model) -> Verdict {
    let Some(view) = seen.after else { return Ok(()) };
    agree(view, &view.progress, view.at)?;
    match (seen.request, seen.outcome) {
        (_, Ok(Reply::Progress(progress))) => agree(view, progress, seen.now),
        (Request::ListShards(ListShards { filter, .. }), Ok(Reply::Shards(shards))) => {
            let passing: Vec<_> =
                view.shards.iter().filter(|shard| passes(filter, shard, seen.now)).collect();
            let same = passing.len() == shards.len()
                && passing.iter().zip(shards).all(|(one, other)| one.shard == other.shard);
            ensure(same, || format!("{filter:?} listed {} of {}", shards.len(), passing.len()))
        }
        _ => Ok(()),
    }
}

fn agree(view: &RunView, shown: &RunProgress, now: LogicalTime) -> Verdict {
    let count = |status| view.shards.iter().filter(|shard| shard.status == status).count() as u32;
    let leased = view.shards.iter().filter(|shard| is_leased(shard, now)).count() as u32;
    let counted = [
        count(ShardStatus::Active),
        count(ShardStatus::Done),
        count(ShardStatus::Split),
        count(ShardStatus::Parked),
        leased,
    ];
    let shown = [shown.active, shown.done, shown.split, shown.parked, shown.leased];
    ensure(shown == counted, || format!("progress shows {shown:?}, a recount finds {counted:?}"))
}

fn is_leased(shard: &ShardSummary, now: LogicalTime) -> bool {
    shard.lease_deadline.is_some_and(|deadline| now < deadline)
}

fn passes(filter: &ShardFilter, shard: &ShardSummary, now: LogicalTime) -> bool {
    filter.status.is_none_or(|status| status == shard.status)
        && filter.is_leased.is_none_or(|leased| leased == is_leased(shard, now))
        && !(filter.root_only && shard.shard.is_derived())
}
