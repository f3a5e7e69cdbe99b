//! Asking a holder for a part of its shard.
//!
//! A request is bound to the holder's fence: when the shard changes hands, what was asked of the
//! one before is void, without anybody having to take it back. It is bound to the asker's session
//! as well, and goes with it.

use bytes::Bytes;
use shardwright_contracts::{FenceEpoch, LogicalTime, ShardKey, WorkerId};
use shardwright_coordination::error::reason::ShardNotFound;
use shardwright_coordination::ops::{self, SplitRequestSlot};
use shardwright_coordination::{
    DeclineError, InfraError, Lease, ShardHead, SplitRequest, SplitRequestError,
};
use shardwright_store::{
    Commit, CommitBuilder, CommitError, Expect, Key, SessionId, Snapshot, Store, Write,
};

use crate::codec::{Asker, Record, SplitAsk};
use crate::coordinator::{Core, StoredCoordinator};
use crate::fault::{self, ShardFault};
use crate::keyspace::Keyspace;
use crate::planted::{self, Defect};
use crate::shard::{Loaded, Place};

/// What is stored about a request.
struct Asked {
    slot: SplitRequestSlot,
    expect: Expect,
}

/// What a worker has asked before.
struct AskedElsewhere {
    /// What stands under the worker's own key.
    asker: Expect,
    earlier: Option<Earlier>,
}

/// A request to the present holder of another shard, expired or not.
struct Earlier {
    place: Place,
    shard: Loaded,
    asked: Asked,
}

impl AskedElsewhere {
    fn is_open_at(&self, now: LogicalTime, fence_floor: FenceEpoch) -> bool {
        self.earlier.as_ref().is_some_and(|Earlier { place, shard, asked }| {
            let gate = shard.run_gate(fence_floor);
            let context = shard.context(now, place.tenant, &gate);
            ops::open_request(&context, &shard.record.head, &asked.slot).is_some()
        })
    }

    /// Takes back what was asked, so that it is open by no clock. The key stays: were it gone, the
    /// commit that asked could come late and be applied a second time.
    fn withdraw(self, keys: &Keyspace, commit: CommitBuilder) -> CommitBuilder {
        let Some(Earlier { place, shard, asked }) = self.earlier else { return commit };
        let fence = shard.record.head.fence;
        let emptied = SplitAsk { fence, slot: asked.slot.answered() }.encode();
        let key = keys.ask(place.tenant, place.key);
        commit.expect(key.clone(), asked.expect).put(key, emptied)
    }
}

impl StoredCoordinator {
    pub(crate) async fn ask_for_split(
        &self,
        place: Place,
        asker: WorkerId,
        patience_ms: u64,
    ) -> Result<(), SplitRequestError> {
        const OPERATION: &str = "request_split";
        let Place { tenant, key } = place;
        let asker_key = self.core.keys.asker(tenant, key.run, asker);
        let patience_ms = if planted::is_active(Defect::PatienceLost) { 0 } else { patience_ms };
        for conflicts in 0..=self.core.config.conflict_retries {
            self.core.back_off(conflicts).await;
            let now = self.core.now().await?;
            let shard = self.shard::<SplitRequestError>(place, OPERATION).await?;
            let mut asked = self.asked(place, &shard.record.head, OPERATION).await?;
            let elsewhere = self.asked_elsewhere(place, asker, OPERATION).await?;
            let open_elsewhere = elsewhere.is_open_at(now, self.core.fence_floor())
                || planted::is_active(Defect::AskedEverywhere);
            let gate = shard.run_gate(self.core.fence_floor());
            let context = shard.context(now, tenant, &gate);
            let expires_at = now.saturating_add(patience_ms);
            let request = SplitRequest { asker, asked_at: now, expires_at };
            let (head, slot) = (&shard.record.head, &mut asked.slot);
            let mut events = self.core.publisher.collector();
            ops::request_split(&context, head, slot, request, open_elsewhere, &mut events)?;
            let session = self.core.session().await?;
            let ask = SplitAsk { fence: head.fence, slot: asked.slot }.encode();
            let commit = Commit::builder()
                .guard(self.core.keys.gate(tenant, key.run), Expect::At(shard.basis.gate))
                .expect(self.core.keys.owner(tenant, key), shard.basis.owner)
                .expect(self.core.keys.ask(tenant, key), asked.expect)
                .expect(asker_key.clone(), elsewhere.asker);
            let commit = elsewhere.withdraw(&self.core.keys, commit);
            let commit = put(commit, self.core.keys.ask(tenant, key), ask, session);
            let asker = Asker { shard: key.shard }.encode();
            let commit = put(commit, asker_key.clone(), asker, session);
            if self.try_commit(place, commit, OPERATION).await? {
                self.core.publisher.publish(events);
                return Ok(());
            }
        }
        Err(fault::contention(OPERATION).into())
    }

    pub(crate) async fn decline(
        &self,
        place: Place,
        lease: &Lease,
        pause_ms: u64,
    ) -> Result<(), DeclineError> {
        const OPERATION: &str = "decline_split";
        let Place { tenant, key } = place;
        let pause_ms = pause_ms << u32::from(planted::is_active(Defect::DeclineStretched));
        for conflicts in 0..=self.core.config.conflict_retries {
            self.core.back_off(conflicts).await;
            let now = self.core.now().await?;
            let shard = self.shard::<DeclineError>(place, OPERATION).await?;
            let mut asked = self.asked(place, &shard.record.head, OPERATION).await?;
            let asker = asked.slot.open.map(|request| request.asker);
            let gate = shard.run_gate(self.core.fence_floor());
            let context = shard.context(now, tenant, &gate);
            let (head, not_before) = (&shard.record.head, now.saturating_add(pause_ms));
            let mut events = self.core.publisher.collector();
            ops::decline_split(&context, head, &mut asked.slot, lease, not_before, &mut events)?;
            let session = self.core.session().await?;
            let ask = SplitAsk { fence: head.fence, slot: asked.slot }.encode();
            let commit = Commit::builder()
                .guard(self.core.keys.gate(tenant, key.run), Expect::At(shard.basis.gate))
                .expect(self.core.keys.owner(tenant, key), shard.basis.owner)
                .expect(self.core.keys.ask(tenant, key), asked.expect);
            let mut commit = match planted::is_active(Defect::DeclineDeletes) {
                true => commit.delete(self.core.keys.ask(tenant, key)),
                false => put(commit, self.core.keys.ask(tenant, key), ask, session),
            };
            if let Some(asker) = asker {
                commit = commit.delete(self.core.keys.asker(tenant, key.run, asker));
            }
            if self.try_commit(place, commit, OPERATION).await? {
                self.core.publisher.publish(events);
                return Ok(());
            }
        }
        Err(fault::contention(OPERATION).into())
    }

    async fn shard<R: From<ShardNotFound> + From<InfraError>>(
        &self,
        place: Place,
        operation: &'static str,
    ) -> Result<Loaded, R> {
        let loaded = self.core.load_shard(place, operation).await.map_err(InfraError::from)?;
        loaded.ok_or_else(|| ShardNotFound { key: place.key }.into())
    }

    /// What has been asked of the holder. What was asked of an earlier one does not count.
    async fn asked(
        &self,
        place: Place,
        head: &ShardHead,
        operation: &'static str,
    ) -> Result<Asked, InfraError> {
        let key = self.core.keys.ask(place.tenant, place.key);
        let (ask, expect) = self.core.advice::<SplitAsk>(&key, operation).await?;
        let current = ask.filter(|ask| ask.fence == head.fence && head.lease.is_some());
        Ok(Asked { slot: current.map(|ask| ask.slot).unwrap_or_default(), expect })
    }

    /// What a worker has asked of the holder of another shard, and what says so.
    async fn asked_elsewhere(
        &self,
        place: Place,
        asker: WorkerId,
        operation: &'static str,
    ) -> Result<AskedElsewhere, InfraError> {
        let Place { tenant, key } = place;
        let asker_key = self.core.keys.asker(tenant, key.run, asker);
        let (before, expect) = self.core.advice::<Asker>(&asker_key, operation).await?;
        let nothing = AskedElsewhere { asker: expect, earlier: None };
        let Some(before) = before.filter(|before| before.shard != key.shard) else {
            return Ok(nothing);
        };
        let elsewhere = Place { tenant, key: ShardKey::new(key.run, before.shard) };
        let shard = match self.core.load_shard(elsewhere, operation).await {
            Ok(Some(shard)) => shard,
            // Nobody works on a damaged shard, so nobody can answer what was asked there.
            Ok(None) | Err(ShardFault::Damaged(_)) => return Ok(nothing),
            Err(ShardFault::Other(error)) => return Err(error),
        };
        let asked = self.asked(elsewhere, &shard.record.head, operation).await?;
        if asked.slot.open.is_none_or(|request| request.asker != asker) {
            return Ok(nothing);
        }
        Ok(AskedElsewhere { earlier: Some(Earlier { place: elsewhere, shard, asked }), ..nothing })
    }

    /// Whether a commit was applied; if not, it is to be decided anew.
    async fn try_commit(
        &self,
        place: Place,
        commit: CommitBuilder,
        operation: &'static str,
    ) -> Result<bool, InfraError> {
        let commit =
            commit.build().map_err(|error| fault::corrupt(operation, error.to_string()))?;
        let writes = commit.writes().to_vec();
        match self.core.store.commit(commit).await {
            Ok(revision) => {
                self.core.note_commit(place.tenant, place.key.run, revision, &writes);
                Ok(true)
            }
            Err(CommitError::Conflict(_)) => Ok(false),
            Err(CommitError::SessionGone(ended)) => {
                self.core.sessions.forget(ended);
                Ok(false)
            }
            Err(error) => Err(fault::commit(operation, &error)),
        }
    }
}

impl Core {
    /// What becomes of a request when the holder splits. How long nobody is to ask stands.
    pub(crate) async fn answer_request(
        &self,
        place: Place,
        fence: FenceEpoch,
        operation: &'static str,
    ) -> Result<Write, InfraError> {
        let key = self.keys.ask(place.tenant, place.key);
        let (ask, _) = self.advice::<SplitAsk>(&key, operation).await?;
        let ask = ask.filter(|ask| ask.fence == fence);
        let slot = ask.map(|ask| ask.slot.answered()).unwrap_or_default();
        if slot == SplitRequestSlot::default() {
            return Ok(Write::Delete { key });
        }
        Ok(Write::Put { key, value: SplitAsk { fence, slot }.encode(), session: None })
    }

    /// A record that only advises. One that cannot be read is no advice, and is written over.
    async fn advice<T: Record>(
        &self,
        key: &Key,
        operation: &'static str,
    ) -> Result<(Option<T>, Expect), InfraError> {
        let loaded = self.store.load(std::slice::from_ref(key)).await;
        let Snapshot { values, .. } = loaded.map_err(|error| fault::read(operation, &error))?;
        Ok(match values.into_iter().next().flatten() {
            Some(found) => (T::decode(&found.value).ok(), Expect::At(found.revision)),
            None => (None, Expect::Absent),
        })
    }
}

fn put(commit: CommitBuilder, key: Key, value: Bytes, session: Option<SessionId>) -> CommitBuilder {
    match session {
        Some(session) if !planted::is_active(Defect::RequestOutlivesAsker) => {
            commit.put_in_session(key, value, session)
        }
        Some(_) | None => commit.put(key, value),
    }
}
