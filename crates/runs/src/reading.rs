//! Reading a run: its record, its shards page by page, and how far it has come.
//!
//! A run that is being taken away is not there any more for whoever looks. It is marked, or its
//! gate is gone, before anything of it goes. So whoever has read something of a run, and finds
//! afterwards that it still is there, has seen all of it.

use std::sync::Arc;

use shardwright_contracts::{LogicalTime, RunId, ShardKey, TenantId};
use shardwright_coordination::{InfraError, ProgressCounter, RunProgress, RunRecord, ShardRecord};
use shardwright_engine::codec::Record;
use shardwright_engine::fault;
use shardwright_store::{Key, Revision, ScanPage, Snapshot, Store, Versioned};

use crate::coordinator::Core;
use crate::keys::ShardPart;
use crate::records::{ManifestRecord, RunHeadRecord, join_run};
use crate::shard::{ShardAddress, decode_shard};

/// A run as it is stored.
pub(crate) struct StoredRun {
    pub(crate) record: RunRecord,
    pub(crate) at: Revision,
    /// Whether it is being deleted.
    pub(crate) collecting: bool,
    /// Whether its gate is there. Without it nobody works on the run; whoever changes the run makes
    /// it anew.
    pub(crate) has_gate: bool,
}

/// What is stored of a run, undecoded but for the run itself.
struct Parts {
    run: RunHeadRecord,
    at: Revision,
    manifest: Option<Versioned>,
    collecting: bool,
    has_gate: bool,
}

impl Core {
    /// Reads a run; none if there is none, or only what is left of one.
    pub(crate) async fn load_run(
        &self,
        tenant: TenantId,
        run: RunId,
        operation: &'static str,
    ) -> Result<Option<StoredRun>, InfraError> {
        let (parts, _) = self.load_parts(tenant, run, operation).await?;
        let Some(parts) = parts else { return Ok(None) };
        if parts.collecting {
            return parts.without_manifest(operation).map(Some);
        }
        let Parts { run: stored, at, manifest, collecting, has_gate } = parts.whole(operation)?;
        let manifest = match manifest {
            Some(manifest) => ManifestRecord::decode(&manifest.value)
                .map_err(|error| damaged(run, operation, error.to_string()))?,
            None => ManifestRecord { root_shards: Vec::new() },
        };
        let joined = join_run(stored, manifest);
        let record = joined.map_err(|error| damaged(run, operation, error.to_string()))?;
        Ok(Some(StoredRun { record, at, collecting, has_gate }))
    }

    /// Reads a run for whoever needs neither its root shards nor its gate: it gets the shortest
    /// list of shards that the run could have. So a damaged manifest or a gate that is gone keeps
    /// nobody from ending the run.
    pub(crate) async fn load_run_alone(
        &self,
        tenant: TenantId,
        run: RunId,
        operation: &'static str,
    ) -> Result<Option<StoredRun>, InfraError> {
        let (parts, _) = self.load_parts(tenant, run, operation).await?;
        parts.map(|parts| parts.without_manifest(operation)).transpose()
    }

    /// Reads a run, and tells of which moment that is.
    async fn load_parts(
        &self,
        tenant: TenantId,
        run: RunId,
        operation: &'static str,
    ) -> Result<(Option<Parts>, Revision), InfraError> {
        let keys = [
            self.keys.run(tenant, run),
            self.keys.manifest(tenant, run),
            self.keys.gate(tenant, run),
        ];
        let loaded = self.store.load(&keys).await;
        let Snapshot { values, revision } =
            loaded.map_err(|error| fault::read(operation, &error))?;
        let Ok([found, manifest, gate]) = <[Option<Versioned>; 3]>::try_from(values) else {
            return Err(fault::corrupt(operation, "the store answered for other keys than asked"));
        };
        let Some(found) = found else { return Ok((None, revision)) };
        let stored = RunHeadRecord::decode(&found.value);
        let stored = stored.map_err(|error| damaged(run, operation, error.to_string()))?;
        if (stored.tenant, stored.run) != (tenant, run) {
            let message = "what is stored there is another run".to_owned();
            return Err(damaged(run, operation, message));
        }
        let has_gate = gate.is_some();
        let collecting = stored.collecting || (!has_gate && stored.status.is_terminal());
        let parts = Parts { run: stored, at: found.revision, manifest, collecting, has_gate };
        Ok((Some(parts), revision))
    }

    /// Fails if the gate of a run is gone though the run is there for whoever looks.
    pub(crate) async fn check_gate(
        &self,
        tenant: TenantId,
        run: RunId,
        operation: &'static str,
    ) -> Result<(), InfraError> {
        let (parts, _) = self.load_parts(tenant, run, operation).await?;
        parts.map_or(Ok(()), |parts| parts.whole(operation).map(|_| ()))
    }

    /// Whether a run that was found was still there, and not being taken away, at a revision.
    async fn was_kept(
        &self,
        RunRecord { tenant, run, .. }: &RunRecord,
        at: Revision,
        operation: &'static str,
    ) -> Result<bool, InfraError> {
        let read = || async {
            let (parts, as_of) = self.load_parts(*tenant, *run, operation).await?;
            Ok((as_of >= at).then_some(parts))
        };
        let Some(parts) = self.driver.read_until(operation, read).await? else { return Ok(false) };
        Ok(!parts.whole(operation)?.collecting)
    }

    /// Visits every shard of a run, all at one moment, and none before the run was as it was found.
    /// Where there is none, shards come from there on, and what came before does not count. False
    /// if the run is being taken away; then nothing counts.
    pub(crate) async fn each_shard(
        &self,
        StoredRun { record, at, .. }: &StoredRun,
        operation: &'static str,
        mut visit: impl FnMut(Option<ShardRecord>) + Send,
    ) -> Result<bool, InfraError> {
        visit(None);
        if record.root_shards.is_empty() {
            // What is staged is not there yet.
            return Ok(true);
        }
        let RunRecord { tenant, run, .. } = *record;
        let mut seen_at = *at;
        let mut half = UnpairedDefinition(None);
        let in_page = |is_first: bool, page: ScanPage| {
            seen_at = page.revision;
            if is_first {
                half = UnpairedDefinition(None);
                visit(None);
            }
            for (key, found) in page.entries {
                let Some((_, shard, part)) = self.keys.parse_shard(&key) else {
                    return Err(no_key_of_ours(&key, operation));
                };
                let place = ShardAddress { tenant, key: shard };
                if let Some(shard) = half.join(place, part, found, operation)? {
                    visit(Some(shard));
                }
            }
            if page.next.is_none() { half.end(operation) } else { Ok(()) }
        };
        let visited =
            self.visit_since(&self.keys.shards(tenant, run), *at, operation, in_page).await;
        // What looks broken may be half taken away.
        if !self.was_kept(record, seen_at, operation).await? {
            return Ok(false);
        }
        visited.map(|()| true)
    }

    /// Reads every shard of a run, all at one moment; none if the run is being taken away.
    pub(crate) async fn all_shards<T: Send>(
        &self,
        found: &StoredRun,
        operation: &'static str,
        mut keep: impl FnMut(ShardRecord) -> Option<T> + Send,
    ) -> Result<Option<Vec<T>>, InfraError> {
        let mut kept = Vec::new();
        let visit = |shard: Option<ShardRecord>| match shard {
            Some(shard) => kept.extend(keep(shard)),
            None => kept.clear(),
        };
        let is_there = self.each_shard(found, operation, visit).await?;
        Ok(is_there.then_some(kept))
    }

    /// How far a run has come, at the moment at which it was found or later; none if it is being
    /// taken away.
    pub(crate) async fn progress_of(
        self: &Arc<Self>,
        found: &StoredRun,
        now: LogicalTime,
        operation: &'static str,
    ) -> Result<Option<RunProgress>, InfraError> {
        let RunRecord { tenant, run, .. } = found.record;
        let begin = || ProgressCounter::new(now, self.fence_floor());
        let mut counter = begin();
        let count = |shard: Option<ShardRecord>| match shard {
            Some(ShardRecord { head, spec, cursor }) => {
                counter.add(&head, spec.as_spec_ref(), cursor.as_update());
            }
            None => counter = begin(),
        };
        if !self.each_shard(found, operation, count).await? {
            return Ok(None);
        }
        let told = self.watermark(tenant, run).await?;
        let before = told.as_deref();
        let mut progress = counter.finish(before);
        if progress.watermark.as_deref() != before {
            progress.watermark =
                self.raise_watermark(tenant, run, progress.watermark, told).await?;
        }
        Ok(Some(progress))
    }
}

impl Parts {
    /// Fails if the gate of a run is gone that nobody takes away.
    fn whole(self, operation: &'static str) -> Result<Self, InfraError> {
        if self.has_gate || self.collecting {
            return Ok(self);
        }
        let message = "its gate is gone; to pause, resume or end the run makes it anew";
        Err(damaged(self.run.run, operation, message.to_owned()))
    }

    fn without_manifest(self, operation: &'static str) -> Result<StoredRun, InfraError> {
        let Self { run: stored, at, collecting, has_gate, .. } = self;
        let run = stored.run;
        let record = stored.alone();
        let record = record.map_err(|error| damaged(run, operation, error.to_string()))?;
        Ok(StoredRun { record, at, collecting, has_gate })
    }
}

/// A definition that waits for the progress of the same shard, which comes right after it.
struct UnpairedDefinition(Option<(ShardAddress, Versioned)>);

impl UnpairedDefinition {
    /// The shard, if this is the second of its two records.
    fn join(
        &mut self,
        place: ShardAddress,
        part: ShardPart,
        found: Versioned,
        operation: &'static str,
    ) -> Result<Option<ShardRecord>, InfraError> {
        match (part, self.0.take()) {
            (ShardPart::Definition, None) => {
                self.0 = Some((place, found));
                Ok(None)
            }
            (ShardPart::Progress, Some((defined, definition))) if defined == place => {
                decode_shard(place, &definition, &found, operation).map(Some)
            }
            (ShardPart::Definition, Some((defined, _))) => Err(no_progress(defined, operation)),
            (ShardPart::Progress, _) => {
                let ShardKey { run, shard } = place.key;
                let message = format!("shard {shard} of run {run}: not defined");
                Err(fault::corrupt(operation, message))
            }
        }
    }

    /// Fails if there is half a shard at the end.
    fn end(&self, operation: &'static str) -> Result<(), InfraError> {
        self.0.as_ref().map_or(Ok(()), |(defined, _)| Err(no_progress(*defined, operation)))
    }
}

fn no_progress(place: ShardAddress, operation: &'static str) -> InfraError {
    let ShardKey { run, shard } = place.key;
    fault::corrupt(operation, format!("shard {shard} of run {run}: defined, and nothing more"))
}

fn no_key_of_ours(key: &Key, operation: &'static str) -> InfraError {
    fault::corrupt(operation, format!("{key} is no key of ours"))
}

fn damaged(run: RunId, operation: &'static str, error: String) -> InfraError {
    fault::corrupt(operation, format!("run {run}: {error}"))
}
