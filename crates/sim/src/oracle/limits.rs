use shardwright_contracts::limits::{
    MAX_KEY_SIZE, MAX_METADATA_SIZE, MAX_PARK_DETAIL_SIZE, MAX_TOKEN_SIZE,
};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::request::{DraftCursor, DraftSpec, HolderAct, Request};

pub(super) const ORACLE: Oracle = Oracle::after(
    "limits",
    "there are never more shards than allowed, and nothing accepted is longer than allowed",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    if seen.executed().is_none() {
        return Ok(());
    }
    let cursor_fits = |cursor: &DraftCursor| {
        cursor.last_key.as_ref().is_none_or(|key| (1..=MAX_KEY_SIZE).contains(&key.len()))
            && cursor.token.as_ref().is_none_or(|token| token.len() <= MAX_TOKEN_SIZE)
    };
    let spec_fits = |spec: &DraftSpec| {
        spec.start.len().max(spec.end.len()) <= MAX_KEY_SIZE
            && spec.metadata.len() <= MAX_METADATA_SIZE
    };
    let fits = match seen.request {
        Request::Holder { act, .. } => match act {
            HolderAct::Checkpoint { cursor, .. } | HolderAct::Complete { cursor, .. } => {
                cursor_fits(cursor)
            }
            HolderAct::Park { detail, .. } => detail.len() <= MAX_PARK_DETAIL_SIZE,
            _ => true,
        },
        Request::Register { shards, .. } | Request::CreateWithShards { shards, .. } => {
            shards.iter().all(|(_, spec, cursor)| spec_fits(spec) && cursor_fits(cursor))
        }
        _ => true,
    };
    ensure(fits, || format!("a {} was longer than allowed", seen.request.name()))?;
    let (own, all) = (model.shards_of(seen.tenant), model.shards_in_all());
    ensure(own <= model.limits.per_tenant && all <= model.limits.total, || {
        format!("{own} shards of a tenant, {all} in all, allowed are {:?}", model.limits)
    })
}
