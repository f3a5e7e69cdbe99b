use super::budgets::Planned;
use super::ensure;
use crate::clusters::truth::Truth;
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "no round trips",
    "within the cooldown a leader sends no shard back to where it came from, unless it must go",
);

/// Judges what a leader wrote by what was before.
pub(in crate::clusters) fn judge(truth: &Truth, plan: &Planned<'_>) -> Result<(), Finding> {
    for change in plan.changes {
        let Some(aim) = truth.aims.get(&change.shard) else { continue };
        let (Some(there), Some(back)) = (&aim.target.node, &change.after.node) else { continue };
        if there == back || aim.before.as_ref() != Some(back) {
            continue;
        }
        let holder = truth.holder(change.shard).map(|holder| &holder.address);
        // Whoever came, left or was drained since may be seen otherwise by the leader, and it may
        // have heard of a target before it hears of what came earlier elsewhere.
        let surely_known_us = aim.at_us.min(plan.known_us());
        let can_stay = holder == Some(there)
            && truth.open_since(there).is_some_and(|since_us| since_us <= surely_known_us);
        let passed_ms = plan.age_ms(aim);
        // Leaders go by whole milliseconds.
        ensure(ORACLE, !can_stay || passed_ms + 1 >= plan.config.move_cooldown_ms, || {
            let shard = change.shard;
            format!("shard {shard} went from {back} to {there} and back after {passed_ms} ms")
        })?;
    }
    Ok(())
}
