//! A shard as it is stored: what it is, where it stands, who holds it, and the gate of its run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardwright_contracts::{FenceEpoch, LogicalTime, ShardKey, TenantId};
use shardwright_coordination::{
    Context, InfraError, OwnerLiveness, RunState, RunStatus, ShardRecord,
};
use shardwright_engine::codec::Record;
use shardwright_engine::fault;
use shardwright_store::{Expect, Key, Revision, SessionId, Snapshot, Store, Versioned};

use crate::coordinator::Core;
use crate::records::{BindingRecord, DefinitionRecord, ProgressRecord, RunStateRecord, join_shard};

/// Whose shard, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShardAddress {
    pub(crate) tenant: TenantId,
    pub(crate) key: ShardKey,
}

/// A shard and the revisions of all that a commit about it compares.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) record: ShardRecord,
    pub(crate) gate: RunStateRecord,
    pub(crate) basis: Basis,
    /// The moment at which all this was so. A store may show an older one than it did before.
    pub(crate) as_of: Revision,
    binding: Option<Bound>,
}

/// What a decision was based on. A commit that was decided on one basis cannot be applied once any
/// of it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Basis {
    pub(crate) gate: Revision,
    pub(crate) progress: Revision,
    pub(crate) owner: Expect,
}

/// How many keys a [`Basis`] is about.
pub(crate) const BASIS_KEYS: usize = 3;

impl Basis {
    /// What is expected of each of its keys.
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

    /// A lease is stored together with its binding. Where the binding is gone and the lease is
    /// not, the session has ended.
    fn liveness(&self) -> OwnerLiveness {
        let head = &self.record.head;
        match self.binding.filter(|bound| bound.fence == head.fence) {
            _ if head.lease.is_none() => OwnerLiveness::Untracked,
            Some(Bound { session: Some(_), .. }) => OwnerLiveness::Live,
            Some(Bound { session: None, .. }) => OwnerLiveness::Untracked,
            None => OwnerLiveness::Gone,
        }
    }
}

/// The shards whose holders are served here, as they were stored last.
///
/// Only the holder advances a shard, so what was stored last is nearly always still there, and a
/// holder's operation needs no read.
#[derive(Default)]
pub(crate) struct ShardCache {
    shards: Mutex<BTreeMap<ShardAddress, Arc<Loaded>>>,
    /// Those that were found damaged, for whoever asks why something failed.
    damaged: Mutex<BTreeSet<ShardAddress>>,
}

impl ShardCache {
    pub(crate) fn get(&self, place: ShardAddress) -> Option<Arc<Loaded>> {
        self.lock().get(&place).cloned()
    }

    pub(crate) fn forget(&self, place: ShardAddress) {
        self.lock().remove(&place);
    }

    /// Notes that it is this shard that cannot be read, and not the store or what all shards need.
    pub(crate) fn note_damaged(&self, place: ShardAddress) {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner).insert(place);
    }

    /// Whether a shard was found damaged since the last time that somebody asked.
    pub(crate) fn take_damaged(&self, place: ShardAddress) -> bool {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner).remove(&place)
    }

    /// Keeps a shard for as long as somebody holds it.
    pub(crate) fn keep(&self, place: ShardAddress, loaded: Arc<Loaded>) {
        if loaded.record.head.lease.is_some() {
            self.lock().insert(place, loaded);
        } else {
            self.forget(place);
        }
    }

    /// Forgets those whose holders' time was up long ago: nobody serves them here any more.
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

    /// Reads a shard with all that a commit about it compares; none if there is no such shard.
    pub(crate) async fn load_shard(
        &self,
        place: ShardAddress,
        operation: &'static str,
    ) -> Result<Option<Loaded>, ShardFault> {
        let other = ShardFault::Other;
        let ShardAddress { tenant, key } = place;
        let keys = [
            self.keys.gate(tenant, key.run),
            self.keys.definition(tenant, key),
            self.keys.progress(tenant, key),
            self.keys.owner(tenant, key),
        ];
        let loaded = self.store.load(&keys).await;
        let Snapshot { values, revision } =
            loaded.map_err(|error| other(fault::read(operation, &error)))?;
        let Ok([gate, definition, progress, owner]) = <[Option<Versioned>; 4]>::try_from(values)
        else {
            let message = "the store answered for other keys than asked";
            return Err(other(fault::corrupt(operation, message)));
        };
        let (Some(definition), Some(progress)) = (definition, progress) else { return Ok(None) };
        let Some(gate) = gate else {
            // The run is being taken away, or damaged.
            self.check_gate(tenant, key.run, operation).await.map_err(other)?;
            return Ok(None);
        };
        let gate_at = gate.revision;
        let gate = RunStateRecord::decode(&gate.value);
        let gate = gate.map_err(|error| other(fault::decode(operation, &error)))?;
        if gate.status == RunStatus::Initializing {
            // What is staged is not there yet.
            return Ok(None);
        }
        let record = decode_shard(place, &definition, &progress, operation);
        let record = record.map_err(ShardFault::Damaged)?;
        let binding = match &owner {
            Some(owner) => {
                let BindingRecord { fence, .. } =
                    BindingRecord::decode(&owner.value).map_err(|error| {
                        ShardFault::Damaged(damaged(place, operation, error.to_string()))
                    })?;
                Some(Bound { fence, session: owner.session })
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

/// Puts a stored shard together. A damaged one is named, so that somebody can look at it.
pub(crate) fn decode_shard(
    place: ShardAddress,
    definition: &Versioned,
    progress: &Versioned,
    operation: &'static str,
) -> Result<ShardRecord, InfraError> {
    let damaged = |error: String| damaged(place, operation, error);
    let definition =
        DefinitionRecord::decode(&definition.value).map_err(|error| damaged(error.to_string()))?;
    let progress =
        ProgressRecord::decode(&progress.value).map_err(|error| damaged(error.to_string()))?;
    if (definition.tenant, definition.key) != (place.tenant, place.key) {
        return Err(damaged("what is stored there is another shard".to_owned()));
    }
    join_shard(definition, progress).map_err(|error| damaged(error.to_string()))
}

/// Names a damaged shard.
fn damaged(place: ShardAddress, operation: &'static str, error: String) -> InfraError {
    let ShardKey { run, shard } = place.key;
    fault::corrupt(operation, format!("shard {shard} of run {run}: {error}"))
}

/// Why a shard could not be read.
#[derive(Debug)]
pub enum ShardFault {
    /// Its own records are damaged. It is out of work, and no other shard is.
    Damaged(InfraError),
    /// Something that others need as well.
    Other(InfraError),
}

impl From<ShardFault> for InfraError {
    fn from(fault: ShardFault) -> Self {
        match fault {
            ShardFault::Damaged(error) | ShardFault::Other(error) => error,
        }
    }
}
