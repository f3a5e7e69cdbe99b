//! Reading a run: its record, its shards page by page, and its progress.
//!
//! Reads do not find a run that is being deleted. The run is marked, or its gate deleted, before
//! anything else of it is deleted. So a reader that still finds the run after reading its shards
//! has read all of them.
//!
//! The owners of shards are read before the shards. Every commit of a holder compares its binding.
//! So a lease without a binding has ended, unless the shard changed after the owners were read.

use std::collections::BTreeMap;
use std::sync::Arc;

use shardwright_contracts::{LogicalTime, RunId, ShardId, ShardKey, TenantId};
use shardwright_coordination::{
    InfraError, OwnerLiveness, ProgressCounter, RunProgress, RunRecord, ShardHead, ShardRecord,
};
use shardwright_engine::Operation;
use shardwright_engine::codec::Record;
use shardwright_engine::{fault, listing};
use shardwright_store::{Key, Revision, ScanPage, Versioned};

use crate::coordinator::Core;
use crate::keys::{ShardPart, ViewKey};
use crate::records::{ManifestRecord, RunHeadRecord, join_run};
use crate::shard::{Bound, ShardAddress, decode_shard, liveness};

/// Shard records per page. A record has up to 41 kB.
pub(crate) const RECORDS_PER_PAGE: usize = 200;

/// A run as it is stored.
pub(crate) struct StoredRun {
    pub(crate) record: RunRecord,
    pub(crate) at: Revision,
    /// Whether it is being deleted.
    pub(crate) collecting: bool,
    /// Whether its gate exists. Without it no worker can work on the run. The next change of the
    /// run writes it again.
    pub(crate) has_gate: bool,
}

/// Stored parts of a run. Only the run itself is decoded.
struct Parts {
    run: RunHeadRecord,
    at: Revision,
    manifest: Option<Versioned>,
    collecting: bool,
    has_gate: bool,
}

impl Core {
    /// Loads the entry under a key, and the revision of the read.
    pub(crate) async fn load_one(
        &self,
        key: &Key,
        operation: Operation,
    ) -> Result<(Option<Versioned>, Revision), InfraError> {
        listing::load_one(&self.store, key, operation).await
    }

    /// Reads a run; none if it does not exist.
    pub(crate) async fn load_run(
        &self,
        tenant: TenantId,
        run: RunId,
        operation: Operation,
    ) -> Result<Option<StoredRun>, InfraError> {
        let parts = self.load_parts(tenant, run, Revision::ZERO, operation).await?;
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

    /// Reads a run for callers that need neither its root shards nor its gate. The record has the
    /// shortest manifest that the run could have. So a run with a damaged manifest or a missing
    /// gate can still be ended.
    pub(crate) async fn load_run_alone(
        &self,
        tenant: TenantId,
        run: RunId,
        operation: Operation,
    ) -> Result<Option<StoredRun>, InfraError> {
        let parts = self.load_parts(tenant, run, Revision::ZERO, operation).await?;
        parts.map(|parts| parts.without_manifest(operation)).transpose()
    }

    /// Reads a run, at a revision or later.
    async fn load_parts(
        &self,
        tenant: TenantId,
        run: RunId,
        since: Revision,
        operation: Operation,
    ) -> Result<Option<Parts>, InfraError> {
        let keys = [
            self.keys.run(tenant, run),
            self.keys.manifest(tenant, run),
            self.keys.gate(tenant, run),
        ];
        let loaded = listing::load_since(&self.driver, &keys, since, operation).await?;
        let ([found, manifest, gate], _) = loaded;
        let Some(found) = found else { return Ok(None) };
        let stored = RunHeadRecord::decode(&found.value);
        let stored = stored.map_err(|error| damaged(run, operation, error.to_string()))?;
        if (stored.tenant, stored.run) != (tenant, run) {
            let message = "the key contains another run".to_owned();
            return Err(damaged(run, operation, message));
        }
        let has_gate = gate.is_some();
        let collecting = stored.collecting || (!has_gate && stored.status.is_terminal());
        Ok(Some(Parts { run: stored, at: found.revision, manifest, collecting, has_gate }))
    }

    /// Fails if a run exists without its gate.
    pub(crate) async fn check_gate(
        &self,
        tenant: TenantId,
        run: RunId,
        operation: Operation,
    ) -> Result<(), InfraError> {
        let parts = self.load_parts(tenant, run, Revision::ZERO, operation).await?;
        parts.map_or(Ok(()), |parts| parts.whole(operation).map(|_| ()))
    }

    /// Whether a run still existed, and was not being deleted, at a revision or later.
    async fn was_kept(
        &self,
        RunRecord { tenant, run, .. }: &RunRecord,
        at: Revision,
        operation: Operation,
    ) -> Result<bool, InfraError> {
        let parts = self.load_parts(*tenant, *run, at, operation).await?;
        let Some(parts) = parts else { return Ok(false) };
        Ok(!parts.whole(operation)?.collecting)
    }

    /// Reads the owners of a run's shards, at a revision or later.
    async fn owners(
        &self,
        RunRecord { tenant, run, .. }: &RunRecord,
        at: Revision,
        operation: Operation,
    ) -> Result<Owners, InfraError> {
        let range = self.keys.owners(*tenant, *run);
        let (at, entries) = listing::list_since(&self.driver, &range, at, operation).await?;
        let bound = entries.iter().filter_map(|(key, found)| {
            let (_, _, ViewKey::Owner(shard)) = self.keys.parse_view(key)? else { return None };
            Some((shard, Bound::decode(found).ok()))
        });
        Ok(Owners { at, bound: bound.collect() })
    }

    /// Visits every shard of a run with its owner's liveness, all at one revision that is not older
    /// than the run's. A `None` restarts the visit: earlier shards do not count. Returns false if
    /// the run is being deleted, and then no shard counts.
    pub(crate) async fn each_shard(
        &self,
        StoredRun { record, at, .. }: &StoredRun,
        operation: Operation,
        mut visit: impl FnMut(Option<(ShardRecord, OwnerLiveness)>) + Send,
    ) -> Result<bool, InfraError> {
        visit(None);
        if record.root_shards.is_empty() {
            // Staged shards do not exist yet.
            return Ok(true);
        }
        let RunRecord { tenant, run, .. } = *record;
        let owners = self.owners(record, *at, operation).await?;
        let mut seen_at = owners.at;
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
                let (address, stored_at) = (ShardAddress { tenant, key: shard }, found.revision);
                if let Some(shard) = half.join(address, part, found, operation)? {
                    let owner = owners.liveness(&shard.head, stored_at);
                    visit(Some((shard, owner)));
                }
            }
            if page.next.is_none() { half.end(operation) } else { Ok(()) }
        };
        let (range, since) = (self.keys.shards(tenant, run), owners.at);
        let visited =
            listing::visit_since(&self.driver, &range, RECORDS_PER_PAGE, since, operation, in_page)
                .await;
        // A run that looks damaged may be half deleted.
        if !self.was_kept(record, seen_at, operation).await? {
            return Ok(false);
        }
        visited.map(|_| true)
    }

    /// Reads every shard of a run, all at one revision; none if the run is being deleted.
    pub(crate) async fn all_shards<T: Send>(
        &self,
        found: &StoredRun,
        operation: Operation,
        mut keep: impl FnMut(ShardRecord, OwnerLiveness) -> Option<T> + Send,
    ) -> Result<Option<Vec<T>>, InfraError> {
        let mut kept = Vec::new();
        let visit = |shard: Option<(ShardRecord, OwnerLiveness)>| match shard {
            Some((shard, owner)) => kept.extend(keep(shard, owner)),
            None => kept.clear(),
        };
        let is_there = self.each_shard(found, operation, visit).await?;
        Ok(is_there.then_some(kept))
    }

    /// Progress of a run, at the revision of its record or later; none if it is being deleted.
    pub(crate) async fn progress_of(
        self: &Arc<Self>,
        found: &StoredRun,
        now: LogicalTime,
        operation: Operation,
    ) -> Result<Option<RunProgress>, InfraError> {
        let RunRecord { tenant, run, .. } = found.record;
        let begin = || ProgressCounter::new(self.takeover_terms(now));
        let mut counter = begin();
        let count = |shard: Option<(ShardRecord, OwnerLiveness)>| match shard {
            Some((ShardRecord { head, spec, cursor }, owner)) => {
                counter.add(&head, owner, spec.as_spec_ref(), cursor.as_update());
            }
            None => counter = begin(),
        };
        if !self.each_shard(found, operation, count).await? {
            return Ok(None);
        }
        let before = self.watermark(tenant, run).await?;
        let mut progress = counter.finish(before.as_deref());
        if progress.watermark != before {
            progress.watermark =
                self.raise_watermark(tenant, run, progress.watermark, before).await?;
        }
        Ok(Some(progress))
    }
}

/// Owners of a run's shards, as they were bound at a revision.
struct Owners {
    at: Revision,
    /// `None` for a binding that does not decode. It counts as a binding: a claim fails on it.
    bound: BTreeMap<ShardId, Option<Bound>>,
}

impl Owners {
    /// What is known of the holder of a shard whose progress was stored at a revision.
    fn liveness(&self, head: &ShardHead, stored_at: Revision) -> OwnerLiveness {
        match self.bound.get(&head.key.shard) {
            Some(None) => OwnerLiveness::Untracked,
            bound => match liveness(head, bound.copied().flatten()) {
                // The commit has compared or made the binding after the owners were read.
                OwnerLiveness::Gone if stored_at > self.at => OwnerLiveness::Live,
                liveness => liveness,
            },
        }
    }
}

impl Parts {
    /// Fails if the gate is missing although the run is not being deleted.
    fn whole(self, operation: Operation) -> Result<Self, InfraError> {
        if self.has_gate || self.collecting {
            return Ok(self);
        }
        let message = "its gate is missing; pause, resume or end the run to write it again";
        Err(damaged(self.run.run, operation, message.to_owned()))
    }

    fn without_manifest(self, operation: Operation) -> Result<StoredRun, InfraError> {
        let Self { run: stored, at, collecting, has_gate, .. } = self;
        let run = stored.run;
        let record = stored.alone();
        let record = record.map_err(|error| damaged(run, operation, error.to_string()))?;
        Ok(StoredRun { record, at, collecting, has_gate })
    }
}

/// A definition whose progress record follows next.
struct UnpairedDefinition(Option<(ShardAddress, Versioned)>);

impl UnpairedDefinition {
    /// Returns the shard once both of its records were read.
    fn join(
        &mut self,
        address: ShardAddress,
        part: ShardPart,
        found: Versioned,
        operation: Operation,
    ) -> Result<Option<ShardRecord>, InfraError> {
        match (part, self.0.take()) {
            (ShardPart::Definition, None) => {
                self.0 = Some((address, found));
                Ok(None)
            }
            (ShardPart::Progress, Some((defined, definition))) if defined == address => {
                decode_shard(address, &definition, &found, operation).map(Some)
            }
            (ShardPart::Definition, Some((defined, _))) => Err(no_progress(defined, operation)),
            (ShardPart::Progress, _) => {
                let ShardKey { run, shard } = address.key;
                let message = format!("shard {shard} of run {run}: the definition is missing");
                Err(fault::corrupt(operation, message))
            }
        }
    }

    /// Fails if the last definition has no progress.
    fn end(&self, operation: Operation) -> Result<(), InfraError> {
        self.0.as_ref().map_or(Ok(()), |(defined, _)| Err(no_progress(*defined, operation)))
    }
}

fn no_progress(address: ShardAddress, operation: Operation) -> InfraError {
    let ShardKey { run, shard } = address.key;
    fault::corrupt(operation, format!("shard {shard} of run {run}: the progress is missing"))
}

fn no_key_of_ours(key: &Key, operation: Operation) -> InfraError {
    fault::corrupt(operation, format!("{key} is not a key of a shard"))
}

fn damaged(run: RunId, operation: Operation, error: String) -> InfraError {
    fault::corrupt(operation, format!("run {run}: {error}"))
}
