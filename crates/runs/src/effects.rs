//! Effects of an operation, as keys to compare and to write.

use shardwright_contracts::ShardKey;
use shardwright_coordination::{LeaseHolder, ShardRecord, ShardStatus};
use shardwright_engine::codec::Record;
use shardwright_store::{Commit, CommitBuilder, Expect, Key, Revision, SessionId};

use crate::keys::RunKeys;
use crate::operate::Draft;
use crate::quota::Reservation;
use crate::records::{BindingRecord, ClaimableRecord, DefinitionRecord, ProgressRecord};
use crate::shard::{Basis, Bound, Loaded, ShardAddress};

/// Changes other than progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effects {
    /// The definition changes: range or spawned shards.
    pub(crate) redefines: bool,
    /// It has a new owner.
    pub(crate) grants: bool,
    /// It has no owner any more.
    pub(crate) gives_up: bool,
    /// It becomes claimable.
    pub(crate) opens: bool,
    /// It is no longer claimable.
    pub(crate) closes: bool,
    /// Its holder has split it and continues, which answers a split request.
    pub(crate) answers: bool,
}

impl Effects {
    pub(crate) fn between(before: &ShardRecord, after: &ShardRecord) -> Self {
        let (old, new) = (&before.head, &after.head);
        let is_active = |status| status == ShardStatus::Active;
        let spawned = old.spawned.len() != new.spawned.len();
        Self {
            redefines: spawned || before.spec != after.spec,
            grants: new.lease.is_some() && new.fence != old.fence,
            gives_up: new.lease.is_none() && old.lease.is_some(),
            opens: is_active(new.status) && !is_active(old.status),
            closes: is_active(old.status) && !is_active(new.status),
            answers: spawned && is_active(new.status),
        }
    }
}

/// The commit that stores a draft, if its basis is unchanged.
pub(crate) fn commit(
    keys: &RunKeys,
    address: ShardAddress,
    current: &Loaded,
    draft: &Draft,
    effects: &Effects,
    session: Option<SessionId>,
    reservation: Reservation,
) -> CommitBuilder {
    let ShardAddress { tenant, key } = address;
    let progress = keys.progress(tenant, key);
    let mut commit = compare(keys, address, progress.clone(), current.basis)
        .put(progress, ProgressRecord::encode_of(&draft.record));
    if effects.redefines {
        commit =
            commit.put(keys.definition(tenant, key), DefinitionRecord::encode_of(&draft.record));
    }
    if let Some(holder) = draft.record.head.lease.filter(|_| effects.grants) {
        commit = bind(commit, keys, address, &draft.record, holder, session);
    } else if effects.gives_up {
        commit = commit.delete(keys.owner(tenant, key));
    }
    if effects.opens {
        commit = commit.put(keys.open(tenant, key), ClaimableRecord.encode());
    } else if effects.closes {
        commit = commit.delete(keys.open(tenant, key));
    }
    for child in &draft.new_shards {
        commit = insert(commit, keys, address.tenant, child);
    }
    for write in &draft.also {
        commit = commit.write(write.clone());
    }
    reservation.add_to(commit)
}

/// The expectations of every commit of a shard.
fn compare(
    keys: &RunKeys,
    ShardAddress { tenant, key }: ShardAddress,
    progress_key: Key,
    Basis { gate, progress, owner }: Basis,
) -> CommitBuilder {
    Commit::builder()
        .expect(keys.gate(tenant, key.run), Expect::At(gate))
        .expect(progress_key, Expect::At(progress))
        .expect(keys.owner(tenant, key), owner)
}

/// Adds an untouched shard.
pub(crate) fn insert(
    commit: CommitBuilder,
    keys: &RunKeys,
    tenant: shardwright_contracts::TenantId,
    shard: &ShardRecord,
) -> CommitBuilder {
    let key: ShardKey = shard.head.key;
    commit
        .put(keys.definition(tenant, key), DefinitionRecord::encode_of(shard))
        .put(keys.progress(tenant, key), ProgressRecord::encode_of(shard))
        .put(keys.open(tenant, key), ClaimableRecord.encode())
}

fn bind(
    commit: CommitBuilder,
    keys: &RunKeys,
    address: ShardAddress,
    record: &ShardRecord,
    holder: LeaseHolder,
    session: Option<SessionId>,
) -> CommitBuilder {
    let LeaseHolder { owner, deadline } = holder;
    let binding = BindingRecord { owner, fence: record.head.fence, deadline }.encode();
    let key = keys.owner(address.tenant, address.key);
    match session {
        Some(session) => commit.put_in_session(key, binding, session),
        None => commit.put(key, binding),
    }
}

/// The shard after a commit was applied.
pub(crate) fn after(
    before: &Loaded,
    record: ShardRecord,
    revision: Revision,
    session: Option<SessionId>,
) -> Loaded {
    let effects = Effects::between(&before.record, &record);
    let (owner, binding) = if effects.grants {
        (Expect::At(revision), Some(Bound { fence: record.head.fence, session }))
    } else if effects.gives_up {
        (Expect::Absent, None)
    } else {
        (before.basis.owner, before.binding())
    };
    let basis = Basis { gate: before.basis.gate, progress: revision, owner };
    Loaded::new(record, before.gate, basis, revision, binding)
}
