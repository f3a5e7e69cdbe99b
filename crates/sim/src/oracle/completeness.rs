use shardwright_coordination::RunStatus;

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;

pub(super) const ORACLE: Oracle = Oracle::after(
    "every key processed",
    "when a run is done, accepted work covers every key of its manifest",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    let (Some(run), Some(tenant)) = (seen.run(model), model.tenants.get(&seen.tenant)) else {
        return Ok(());
    };
    if seen.executed().is_none() || run.status != RunStatus::Done {
        return Ok(());
    }
    let missed = run.unprocessed(tenant.tag, None);
    ensure(missed.is_empty(), || format!("the run is done, points {missed:?} were not processed"))
}
