//! The oracles that judge the records of one run and its shards.

use shardwright_coordination::{RunStatus, ShardStatus};
use shardwright_runs::records::{ManifestRecord, RunStateRecord, join_run};

use super::{BOUND, COUNTS, RunRecords, ShardRecords, TOGETHER};
use crate::oracle::Oracle;

impl RunRecords {
    pub(super) fn check(&self) -> Result<(), (&'static Oracle, String)> {
        let Some(run) = &self.run else { return Ok(()) };
        if run.collecting {
            return Ok(());
        }
        let gate = RunStateRecord { status: run.status, paused: run.paused, config: run.config };
        if self.gate != Some(gate) {
            return Err((TOGETHER, format!("the gate is {:?}, the run has {gate:?}", self.gate)));
        }
        if let Some((key, _)) = self.others.iter().find(|(_, is_bound)| !**is_bound) {
            return Err((BOUND, format!("{key:?} is bound to no session")));
        }
        let manifest = self.manifest.clone().unwrap_or(ManifestRecord { root_shards: Vec::new() });
        if let Err(error) = join_run(run.clone(), manifest) {
            return Err((TOGETHER, error.to_string()));
        }
        // A run that was cancelled before it began keeps the stage until its shards are removed.
        let was_cancelled = run.status == RunStatus::Cancelled && self.manifest.is_none();
        if self.staged && run.status != RunStatus::Initializing && !was_cancelled {
            return Err((TOGETHER, "a stage is left of a run that has begun or ended".into()));
        }
        if was_cancelled && let Some(count) = self.count {
            return Err((TOGETHER, format!("cancelled before it began, counted: {count:?}")));
        }
        // Before the run begins, only a registration in progress has shards.
        if self.manifest.is_none() {
            let shards = self.shards.len();
            if !self.staged && (shards > 0 || self.count.is_some()) {
                let text = format!("{shards} shards without a stage, counted: {:?}", self.count);
                return Err((TOGETHER, text));
            }
            return Ok(());
        }
        for (id, shard) in &self.shards {
            shard.check().map_err(|(oracle, text)| (oracle, format!("shard {id}: {text}")))?;
        }
        let used = self.count.map_or(0, |count| count.used);
        if used != self.shards.len() as u64 {
            return Err((COUNTS, format!("{used} counted, {} found", self.shards.len())));
        }
        Ok(())
    }
}

impl ShardRecords {
    fn check(&self) -> Result<(), (&'static Oracle, String)> {
        let Some(record) = &self.record else { return Err((TOGETHER, "no records".into())) };
        let head = &record.head;
        if self.open != (head.status == ShardStatus::Active) {
            return Err((TOGETHER, format!("open: {}, though {:?}", self.open, head.status)));
        }
        let Some(owner) = &self.owner else { return Ok(()) };
        let holder = head.lease.map(|holder| (holder.owner, head.fence));
        if holder != Some((owner.owner, owner.fence)) {
            return Err((TOGETHER, format!("owned by {owner:?}, held by {holder:?}")));
        }
        if !self.owner_is_bound {
            return Err((BOUND, "its owner is bound to no session".into()));
        }
        Ok(())
    }
}
