//! The transaction that returns unused reservations.

use shardwright_coordination::InfraError;
use shardwright_engine::codec::Record;
use shardwright_engine::transact::{Decided, Decision, Read, Transaction};
use shardwright_engine::{Operation, fault};
use shardwright_store::{Commit, Key, Revision, Snapshot, Store, Versioned};

use super::{Counter, NO_SHARDS, NONE_RESERVED, RETURN, counter, lower};
use crate::coordinator::Core;
use crate::records::{ReservedShardsRecord, RunShardsRecord};

/// Returns shards that runs of one tenant have reserved and do not use.
pub(super) struct Returning<'c> {
    pub(super) core: &'c Core,
    /// Counters of the tenant, of the total, and of the runs.
    pub(super) keys: Vec<Key>,
}

/// Counters of one tenant, of the total, and of some runs.
pub(super) struct ManyCounters {
    tenant: Counter<ReservedShardsRecord>,
    total: Counter<ReservedShardsRecord>,
    runs: Vec<Counter<RunShardsRecord>>,
}

impl Transaction for Returning<'_> {
    type Basis = ManyCounters;
    type Answer = u64;
    type Output = u64;
    type Error = InfraError;

    fn operation(&self) -> Operation {
        RETURN
    }

    async fn load(&mut self, read: Read) -> Result<(ManyCounters, Read), InfraError> {
        let loaded = self.core.store.load(&self.keys).await;
        let Snapshot { values, .. } = loaded.map_err(|error| fault::read(RETURN, &error))?;
        let [tenant, total, runs @ ..] = values.as_slice() else {
            return Err(fault::corrupt(RETURN, "the store answered for other keys"));
        };
        let decode = |run: &Option<Versioned>| counter(run.as_ref(), NO_SHARDS, RETURN);
        let counters = ManyCounters {
            tenant: counter(tenant.as_ref(), NONE_RESERVED, RETURN)?,
            total: counter(total.as_ref(), NONE_RESERVED, RETURN)?,
            runs: runs.iter().map(decode).collect::<Result<_, _>>()?,
        };
        Ok((counters, read))
    }

    async fn decide(&mut self, counters: &ManyCounters) -> Decided<u64, InfraError> {
        let ManyCounters { tenant, total, runs } = counters;
        let [tenant_key, total_key, run_keys @ ..] = self.keys.as_slice() else {
            return Ok(Decision::Answer(0));
        };
        let (mut commit, mut freed) = (Commit::builder(), 0);
        for (key, Counter { value: RunShardsRecord { used, reserved }, expect }) in
            run_keys.iter().zip(runs)
        {
            if reserved > used {
                let exact = RunShardsRecord { used: *used, reserved: *used };
                commit = commit.expect(key.clone(), *expect).put(key.clone(), exact.encode());
                freed += reserved - used;
            }
        }
        if freed == 0 {
            return Ok(Decision::Answer(0));
        }
        let commit = lower(commit, tenant_key.clone(), *tenant, freed);
        Ok(Decision::Commit(lower(commit, total_key.clone(), *total, freed), freed))
    }

    fn finish(&mut self, _: ManyCounters, freed: u64, _: Option<(&Commit, Revision)>) -> u64 {
        freed
    }
}
