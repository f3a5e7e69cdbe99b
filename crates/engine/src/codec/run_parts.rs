use shardwright_coordination::{InvariantViolation, RunRecord};

use super::manifest::Manifest;
use super::run::Run;

/// Takes a run apart into the two records as which it is stored.
#[must_use]
pub fn split_run(record: RunRecord, collecting: bool) -> (Run, Manifest) {
    // Every field by its name, so that a new one cannot be forgotten here.
    let RunRecord {
        tenant,
        run,
        config,
        status,
        paused,
        created_at,
        completed_at,
        root_shards,
        op_log,
    } = record;
    let run =
        Run { tenant, run, config, status, paused, created_at, completed_at, op_log, collecting };
    (run, Manifest { root_shards })
}

/// Puts a run together from the two records as which it is stored, and checks that they go
/// together. That the run is being collected is not part of the result.
pub fn join_run(run: Run, manifest: Manifest) -> Result<RunRecord, InvariantViolation> {
    let record = run.with_roots(manifest.root_shards);
    record.check_invariants()?;
    Ok(record)
}
