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
    draft.record.assert_invariants();
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
    shard.assert_invariants();
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

#[cfg(test)]
mod tests {
    use shardwright_contracts::{
        Cursor, CursorSemantics, CursorUpdate, RunId, ShardId, ShardSpec, ShardSpecRef, TenantId,
    };
    use shardwright_coordination::ShardHead;
    use shardwright_engine::keyspace::Keyspace;

    use super::*;

    const TENANT: TenantId = TenantId::from_bytes([7; TenantId::SIZE]);

    fn inserted(shard: ShardId, parent: Option<ShardId>, last_key: &[u8]) {
        let key = ShardKey::new(RunId::from_raw(1), shard);
        let shard = ShardRecord {
            head: ShardHead::new(TENANT, key, parent, CursorSemantics::Completed),
            spec: ShardSpec::try_from_ref(ShardSpecRef::new(b"b", b"m", b"")).unwrap(),
            cursor: Cursor::try_from_update(CursorUpdate::new(Some(last_key), None)).unwrap(),
        };
        let keys = RunKeys::new(Keyspace::default());
        let _commit = insert(Commit::builder(), &keys, TENANT, &shard);
    }

    #[test]
    fn sound_shards_are_inserted() {
        inserted(ShardId::from_raw(1), None, b"c");
        inserted(ShardId::from_raw(1).into_derived(), Some(ShardId::from_raw(1)), b"c");
    }

    #[test]
    #[should_panic(expected = "a shard has a parent if and only if its id is a derived one")]
    fn child_without_a_derived_id_is_not_stored() {
        inserted(ShardId::from_raw(1), Some(ShardId::from_raw(2)), b"c");
    }

    #[test]
    #[should_panic(expected = "a cursor stands in its shard's range")]
    fn shard_with_a_cursor_outside_its_range_is_not_stored() {
        inserted(ShardId::from_raw(1), None, b"z");
    }
}
