//! A stored shard: definition, progress, owner, and the gate of its run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardwright_contracts::{FenceEpoch, LogicalTime, ShardKey, TenantId};
use shardwright_coordination::{
    Context, InfraError, OwnerLiveness, RunState, RunStatus, ShardHead, ShardRecord,
};
use shardwright_engine::Operation;
use shardwright_engine::codec::{DecodeError, Record};
use shardwright_engine::{fault, listing};
use shardwright_store::{Expect, Key, Revision, SessionId, Versioned};

use crate::coordinator::Core;
use crate::records::{BindingRecord, DefinitionRecord, ProgressRecord, RunStateRecord, join_shard};

/// Tenant and key of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShardAddress {
    pub(crate) tenant: TenantId,
    pub(crate) key: ShardKey,
}

/// A shard, with the revisions that a commit compares.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) record: ShardRecord,
    pub(crate) gate: RunStateRecord,
    pub(crate) basis: Basis,
    /// Revision of the read. A later read may be older.
    pub(crate) as_of: Revision,
    binding: Option<Bound>,
}

/// The basis of a decision. A commit cannot be applied once any of it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Basis {
    pub(crate) gate: Revision,
    pub(crate) progress: Revision,
    pub(crate) owner: Expect,
}

/// Number of keys of a [`Basis`].
pub(crate) const BASIS_KEYS: usize = 3;

impl Basis {
    /// Expectations of its keys.
    pub(crate) fn expectations(self) -> [Expect; BASIS_KEYS] {
        [Expect::At(self.gate), Expect::At(self.progress), self.owner]
    }
}

/// The binding of a shard to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) fence: FenceEpoch,
    pub(crate) session: Option<SessionId>,
}

impl Bound {
    pub(crate) fn decode(owner: &Versioned) -> Result<Self, DecodeError> {
        let BindingRecord { fence, .. } = BindingRecord::decode(&owner.value)?;
        Ok(Self { fence, session: owner.session })
    }
}

impl Loaded {
    pub(crate) fn new(
        record: ShardRecord,
        gate: RunStateRecord,
        basis: Basis,
        as_of: Revision,
        binding: Option<Bound>,
    ) -> Self {
        Self { record, gate, basis, as_of, binding }
    }

    pub(crate) const fn binding(&self) -> Option<Bound> {
        self.binding
    }

    pub(crate) fn run_gate(&self, fence_floor: FenceEpoch) -> RunState {
        self.gate.for_run(self.record.head.key.run, fence_floor)
    }

    pub(crate) fn context<'a>(
        &self,
        now: LogicalTime,
        tenant: TenantId,
        gate: &'a RunState,
    ) -> Context<'a> {
        Context { holder: self.liveness(), ..Context::new(now, tenant, gate) }
    }

    fn liveness(&self) -> OwnerLiveness {
        liveness(&self.record.head, self.binding)
    }
}

/// What is known of the session of a shard's holder. A lease is stored together with its binding.
/// If only the lease is left, the session has ended.
pub(crate) fn liveness(head: &ShardHead, binding: Option<Bound>) -> OwnerLiveness {
    match binding.filter(|bound| bound.fence == head.fence) {
        _ if head.lease.is_none() => OwnerLiveness::Untracked,
        Some(Bound { session: Some(_), .. }) => OwnerLiveness::Live,
        Some(Bound { session: None, .. }) => OwnerLiveness::Untracked,
        None => OwnerLiveness::Gone,
    }
}

/// The shards whose holders this process serves, as last stored.
///
/// Only the holder advances a shard, so the cached state is almost always current, and a holder's
/// operation needs no read.
#[derive(Default)]
pub(crate) struct ShardCache {
    shards: Mutex<BTreeMap<ShardAddress, Arc<Loaded>>>,
    /// Shards that were found damaged, so that claims can skip them.
    damaged: Mutex<BTreeSet<ShardAddress>>,
}

impl ShardCache {
    pub(crate) fn get(&self, address: ShardAddress) -> Option<Arc<Loaded>> {
        self.lock().get(&address).cloned()
    }

    pub(crate) fn forget(&self, address: ShardAddress) {
        self.lock().remove(&address);
    }

    /// Records that this shard's own records are damaged.
    pub(crate) fn note_damaged(&self, address: ShardAddress) {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner).insert(address);
    }

    /// Whether a shard was found damaged since the last call.
    pub(crate) fn take_damaged(&self, address: ShardAddress) -> bool {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner).remove(&address)
    }

    /// Caches a shard while it is held.
    pub(crate) fn keep(&self, address: ShardAddress, loaded: Arc<Loaded>) {
        if loaded.record.head.lease.is_some() {
            self.lock().insert(address, loaded);
        } else {
            self.forget(address);
        }
    }

    /// Forgets shards whose leases have expired. This process no longer serves them.
    pub(crate) fn forget_expired(&self, before: LogicalTime) {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.lock().retain(|_, loaded| {
            loaded.record.head.lease.is_some_and(|holder| !holder.is_expired(before))
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ShardAddress, Arc<Loaded>>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// The keys of a [`Basis`], in the order of its expectations.
    pub(crate) fn basis_keys(
        &self,
        ShardAddress { tenant, key }: ShardAddress,
    ) -> [Key; BASIS_KEYS] {
        let gate = self.keys.gate(tenant, key.run);
        [gate, self.keys.progress(tenant, key), self.keys.owner(tenant, key)]
    }

    /// Reads a shard with everything that a commit compares; none if it does not exist.
    pub(crate) async fn load_shard(
        &self,
        address: ShardAddress,
        operation: Operation,
    ) -> Result<Option<Loaded>, ShardFault> {
        let other = ShardFault::Other;
        let ShardAddress { tenant, key } = address;
        let keys = [
            self.keys.gate(tenant, key.run),
            self.keys.stage(tenant, key.run),
            self.keys.definition(tenant, key),
            self.keys.progress(tenant, key),
            self.keys.owner(tenant, key),
        ];
        let loaded = listing::load_all(&self.store, &keys, operation).await;
        let ([gate, stage, definition, progress, owner], revision) = loaded.map_err(other)?;
        let (Some(definition), Some(progress)) = (definition, progress) else { return Ok(None) };
        let Some(gate) = gate else {
            // The run is being deleted, or is damaged.
            self.check_gate(tenant, key.run, operation).await.map_err(other)?;
            return Ok(None);
        };
        let gate_at = gate.revision;
        let gate: RunStateRecord = listing::decode(&gate, operation).map_err(other)?;
        if stage.is_some() || gate.status == RunStatus::Initializing {
            // Staged shards do not exist: not before the run starts, nor if it is cancelled before.
            return Ok(None);
        }
        let record = decode_shard(address, &definition, &progress, operation);
        let record = record.map_err(ShardFault::Damaged)?;
        let binding = match &owner {
            Some(owner) => {
                let bound = Bound::decode(owner).map_err(|error| {
                    ShardFault::Damaged(damaged(address, operation, error.to_string()))
                })?;
                Some(bound)
            }
            None => None,
        };
        let basis = Basis {
            gate: gate_at,
            progress: progress.revision,
            owner: owner.map_or(Expect::Absent, |owner| Expect::At(owner.revision)),
        };
        Ok(Some(Loaded::new(record, gate, basis, revision, binding)))
    }
}

/// Decodes a shard from its two records. The error names a damaged shard.
pub(crate) fn decode_shard(
    address: ShardAddress,
    definition: &Versioned,
    progress: &Versioned,
    operation: Operation,
) -> Result<ShardRecord, InfraError> {
    let damaged = |error: String| damaged(address, operation, error);
    let definition =
        DefinitionRecord::decode(&definition.value).map_err(|error| damaged(error.to_string()))?;
    let progress =
        ProgressRecord::decode(&progress.value).map_err(|error| damaged(error.to_string()))?;
    if (definition.tenant, definition.key) != (address.tenant, address.key) {
        return Err(damaged("the key contains another shard".to_owned()));
    }
    join_shard(definition, progress).map_err(|error| damaged(error.to_string()))
}

/// Error of a damaged shard.
fn damaged(address: ShardAddress, operation: Operation, error: String) -> InfraError {
    let ShardKey { run, shard } = address.key;
    fault::corrupt(operation, format!("shard {shard} of run {run}: {error}"))
}

/// Error of reading a shard.
#[derive(Debug)]
pub(crate) enum ShardFault {
    /// Its own records are damaged. Other shards are not affected.
    Damaged(InfraError),
    /// A failure that also affects other shards.
    Other(InfraError),
}

impl From<ShardFault> for InfraError {
    fn from(fault: ShardFault) -> Self {
        match fault {
            ShardFault::Damaged(error) | ShardFault::Other(error) => error,
        }
    }
}
