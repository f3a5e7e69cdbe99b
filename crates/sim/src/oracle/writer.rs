use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;

/// Judged on what two workers were allowed to write, not on what the record says of its owner.
pub(super) const ORACLE: Oracle = Oracle::before(
    "one writer per fence",
    "of one shard and fence only one worker's writes are accepted, and fences of writes never fall",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Some((lease, _)) = seen.write() else { return Ok(()) };
    let Some((fence, worker)) = seen.shard(model).and_then(|shard| shard.last_write) else {
        return Ok(());
    };
    let shown = lease.fence().as_raw();
    ensure(shown >= fence, || format!("a write under fence {shown} came after one under {fence}"))?;
    ensure(shown > fence || lease.owner() == worker, || {
        format!("workers {} and {worker} both wrote under fence {fence}", lease.owner())
    })
}
