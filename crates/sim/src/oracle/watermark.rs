use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::visible::RunView;

pub(super) const ORACLE: Oracle = Oracle::both(
    "watermark",
    "the watermark never goes back, and accepted work covers every key below it",
    never_back,
    all_below_is_done,
);

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
