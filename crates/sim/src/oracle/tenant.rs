use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::request::Request;
use crate::system::Answer;

/// All bytes of a tenant begin with its tag, so that a stranger's give themselves away.
pub(super) const ORACLE: Oracle = Oracle::before(
    "tenants",
    "nobody is shown a byte of another tenant, and another tenant's lease opens nothing",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Some(tenant) = model.tenants.get(&seen.tenant) else { return Ok(()) };
    if let Request::Holder { lease, .. } = seen.request {
        ensure(lease.tenant() == seen.tenant || seen.outcome.is_err(), || {
            format!("another tenant's lease was accepted for a {}", seen.request.name())
        })?;
    }
    for event in seen.events {
        ensure(event.tenant == seen.tenant, || "told another tenant's event".into())?;
    }
    let own = |bytes: &[u8]| bytes.first().is_none_or(|first| *first == tenant.tag);
    if let Some(view) = seen.after {
        let shards_own = view.shards.iter().all(|shard| own(&shard.start) && own(&shard.end));
        let told = view.record.tenant == seen.tenant && shards_own;
        ensure(told, || "another tenant's run was shown".into())?;
    }
    match seen.outcome {
        Ok(Answer::Granted(granted)) => {
            let (spec, cursor) = (&granted.spec, &granted.cursor);
            let parts = [Some(&spec.start), Some(&spec.end), Some(&spec.metadata)];
            let cursor = [cursor.last_key.as_ref(), cursor.token.as_ref()];
            let all = parts.into_iter().chain(cursor).flatten().all(|bytes| own(bytes));
            ensure(all && granted.lease.tenant() == seen.tenant, || {
                "another tenant's shard was handed out".into()
            })
        }
        Ok(Answer::Run(record)) => {
            ensure(record.tenant == seen.tenant, || "another tenant's run was shown".into())
        }
        Ok(Answer::Shards(shards)) => {
            let all = shards.iter().all(|shard| own(&shard.start) && own(&shard.end));
            ensure(all, || "another tenant's shards were listed".into())
        }
        _ => Ok(()),
    }
}
