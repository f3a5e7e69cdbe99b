//! What stored times mean to whoever plans.
//!
//! They were written by the clocks of other machines. So a target that was heard of while it was
//! written counts from then, and of one that is said to come from the future nothing is known.

use shardwright_contracts::LogicalTime;

use super::PlanInput;
use crate::shard_map::RawShard;
use crate::target::Since;

/// When the guard ends that the last change of members armed.
pub(super) fn guard_ends(input: &PlanInput<'_>) -> LogicalTime {
    let duration = input.config.cluster_state_stability_duration_ms;
    input.members.changed_at().saturating_add(duration)
}

/// For how long a shard has been on its way, if that is too long. Its target could have claimed it
/// from `loose_at` on.
///
/// Of a target of which nothing else is known, it is known that it was there when whoever plans
/// began to look.
pub(super) fn late(
    input: &PlanInput<'_>,
    raw: &RawShard<'_>,
    loose_at: LogicalTime,
) -> Option<u64> {
    let given_at = given_at(input, raw).unwrap_or(input.witness.follows_since);
    let for_ms = input.now.millis_since(given_at.max(loose_at));
    (for_ms >= input.config.stuck_after_ms).then_some(for_ms)
}

/// Until when a shard stays where it was moved to, if that is not over.
pub(super) fn cooling_until(input: &PlanInput<'_>, raw: &RawShard<'_>) -> Option<LogicalTime> {
    if matches!(raw.since, Since::Placed(_)) {
        return None;
    }
    // By a clock that can be trusted, it may have been moved the moment before whoever plans began
    // to look.
    let follows_since = input.witness.follows_since;
    let told = || given_at(input, raw).map_or(follows_since, |at| at.max(follows_since));
    let at = raw.heard_at.unwrap_or_else(told);
    let until = at.saturating_add(input.config.move_cooldown_ms);
    (input.now < until).then_some(until)
}

/// When a shard got its target, by the clock of whoever plans.
fn given_at(input: &PlanInput<'_>, raw: &RawShard<'_>) -> Option<LogicalTime> {
    raw.heard_at.or_else(|| raw.since.time().filter(|at| *at <= input.now))
}
