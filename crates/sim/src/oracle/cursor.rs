use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::request::HolderAct;

pub(super) const ORACLE: Oracle = Oracle::before(
    "cursors",
    "an accepted cursor stands in its shard and never behind an earlier one",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Some((_, HolderAct::Checkpoint { cursor, .. } | HolderAct::Complete { cursor, .. })) =
        seen.write()
    else {
        return Ok(());
    };
    let Some(shard) = seen.shard(model) else { return Ok(()) };
    ensure(cursor.last_key >= shard.cursor.last_key, || {
        format!("cursor {:?} accepted after {:?}", cursor.last_key, shard.cursor.last_key)
    })?;
    let spec = &shard.spec;
    let inside = cursor.last_key.as_ref().is_none_or(|key| spec.start <= *key && *key < spec.end);
    ensure(inside, || {
        format!("cursor {:?} accepted in {:?}..{:?}", cursor.last_key, spec.start, spec.end)
    })
}
