//! Requesting a part of a shard from its holder.
//!
//! A request is bound to the holder's fence: a new holder makes it void without another write. It
//! is bound to the requester's session as well and is deleted with it.

use std::sync::Arc;

use bytes::Bytes;
use shardwright_contracts::{FenceEpoch, LogicalTime, ShardKey, WorkerId};
use shardwright_coordination::error::reason::ShardNotFound;
use shardwright_coordination::operation::{DeclineSplit, RequestSplit};
use shardwright_coordination::ops::{self, SplitRequestSlot};
use shardwright_coordination::{
    Context, DeclineError, EventCollector, InfraError, ShardHead, SplitRequestError,
};
use shardwright_engine::codec::Record;
use shardwright_engine::fault;
use shardwright_engine::transact::{Decided, Decision, Read, Settled, Transaction};
use shardwright_store::{
    Commit, CommitBuilder, Expect, Key, Revision, SessionId, Snapshot, Store, Write,
};

use crate::coordinator::{Core, StoredCoordinator};
use crate::keys::RunKeys;
use crate::records::{RequesterRecord, SplitRequestRecord};
use crate::shard::{Loaded, ShardAddress, ShardFault};

/// What is stored about a request.
struct Asked {
    slot: SplitRequestSlot,
    expect: Expect,
}

/// What a worker has asked before.
struct AskedElsewhere {
    /// What stands under the worker's own key.
    requester: Expect,
    earlier: Option<Earlier>,
}

/// A request to the present holder of another shard, expired or not.
struct Earlier {
    place: ShardAddress,
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
    fn withdraw(&self, keys: &RunKeys, commit: CommitBuilder) -> CommitBuilder {
        let Some(Earlier { place, shard, asked }) = &self.earlier else { return commit };
        let fence = shard.record.head.fence;
        let emptied = SplitRequestRecord { fence, slot: asked.slot.answered() }.encode();
        let key = keys.ask(place.tenant, place.key);
        commit.expect(key.clone(), asked.expect).put(key, emptied)
    }
}

impl StoredCoordinator {
    /// Requests a part of a shard, or declines such a request.
    pub(crate) async fn change_slot<C: SlotChange>(
        &self,
        place: ShardAddress,
        change: C,
    ) -> Result<(), C::Error> {
        let mut transaction = SlotTransaction { core: &self.core, place, change, overtaken: None };
        self.core.driver.transact(&mut transaction).await
    }
}

/// What a request is decided on: the holder's shard and what was requested of the holder.
pub(crate) struct AskBasis {
    now: LogicalTime,
    shard: Loaded,
    asked: Asked,
    elsewhere: Option<AskedElsewhere>,
}

/// A change of what is requested of a shard's holder.
pub(crate) trait SlotChange: Send + Sync {
    const OPERATION: &'static str;
    type Error: From<InfraError> + From<ShardNotFound> + Send;

    /// The worker whose requests to other holders count, too.
    fn requester(&self) -> Option<WorkerId>;

    /// Applies the rule of the protocol.
    fn apply(
        &self,
        context: &Context<'_>,
        basis: &AskBasis,
        slot: &mut SplitRequestSlot,
        events: &mut EventCollector,
    ) -> Result<(), Self::Error>;

    /// Adds what the change compares, besides the request and its holder.
    fn compare(
        &self,
        _core: &Core,
        _place: ShardAddress,
        _basis: &AskBasis,
        commit: CommitBuilder,
    ) -> CommitBuilder {
        commit
    }

    /// Adds what the change writes about the requester.
    fn write(
        &self,
        core: &Core,
        place: ShardAddress,
        basis: &AskBasis,
        session: Option<SessionId>,
        commit: CommitBuilder,
    ) -> CommitBuilder;
}

/// A [`SlotChange`], stored. Repeating it is harmless.
struct SlotTransaction<'c, C> {
    core: &'c Arc<Core>,
    place: ShardAddress,
    change: C,
    /// What to report instead of a refusal: an attempt that may have been stored.
    overtaken: Option<InfraError>,
}

impl<C: SlotChange> SlotTransaction<'_, C> {
    /// A refusal, unless an attempt that was overtaken may have been stored.
    fn refuse(&self, refusal: C::Error) -> Decided<EventCollector, C::Error> {
        let refused = || Ok(Decision::Refuse(refusal));
        self.overtaken.as_ref().map_or_else(refused, |unknown| Err(unknown.clone()))
    }
}

impl<C: SlotChange> Transaction for SlotTransaction<'_, C> {
    type Basis = Option<AskBasis>;
    type Answer = EventCollector;
    type Output = ();
    type Error = C::Error;

    fn operation(&self) -> &'static str {
        C::OPERATION
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        let requester = self.change.requester();
        Ok((self.core.ask_basis(self.place, requester, C::OPERATION).await?, read))
    }

    async fn decide(&mut self, basis: &Self::Basis) -> Decided<EventCollector, C::Error> {
        let (core, ShardAddress { tenant, key }) = (self.core, self.place);
        let Some(basis) = basis else {
            return self.refuse(ShardNotFound { key }.into());
        };
        let AskBasis { now, shard, asked, .. } = basis;
        let gate = shard.run_gate(core.fence_floor());
        let context = shard.context(*now, tenant, &gate);
        let (mut slot, mut events) = (asked.slot, core.publisher.collector());
        if let Err(refusal) = self.change.apply(&context, basis, &mut slot, &mut events) {
            return self.refuse(refusal);
        }
        let session = core.session().await?;
        let ask = SplitRequestRecord { fence: shard.record.head.fence, slot }.encode();
        let commit = Commit::builder()
            .guard(core.keys.gate(tenant, key.run), Expect::At(shard.basis.gate))
            .expect(core.keys.owner(tenant, key), shard.basis.owner)
            .expect(core.keys.ask(tenant, key), asked.expect);
        let commit = self.change.compare(core, self.place, basis, commit);
        let commit = put(commit, core.keys.ask(tenant, key), ask, session);
        Ok(Decision::Commit(self.change.write(core, self.place, basis, session, commit), events))
    }

    fn not_stored(&mut self, _: EventCollector, settled: &Settled) {
        self.core.forget_ended(settled);
        if let Settled::Overtaken(error) = settled {
            self.overtaken = Some(error.clone());
        }
    }

    fn finish(
        &mut self,
        _: Self::Basis,
        events: EventCollector,
        stored: Option<(&Commit, Revision)>,
    ) {
        if let Some((commit, revision)) = stored {
            let ShardAddress { tenant, key } = self.place;
            self.core.note_commit(tenant, key.run, revision, commit.writes());
        }
        self.core.publisher.publish(events);
    }
}

impl SlotChange for RequestSplit {
    const OPERATION: &'static str = "request_split";
    type Error = SplitRequestError;

    fn requester(&self) -> Option<WorkerId> {
        Some(self.requester)
    }

    fn apply(
        &self,
        context: &Context<'_>,
        basis: &AskBasis,
        slot: &mut SplitRequestSlot,
        events: &mut EventCollector,
    ) -> Result<(), SplitRequestError> {
        let (now, floor) = (basis.now, context.run.fence_floor);
        let open_elsewhere = basis.elsewhere.as_ref().is_some_and(|it| it.is_open_at(now, floor));
        ops::request_split(context, &basis.shard.record.head, slot, self, open_elsewhere, events)
    }

    fn compare(
        &self,
        core: &Core,
        place: ShardAddress,
        basis: &AskBasis,
        commit: CommitBuilder,
    ) -> CommitBuilder {
        let Some(elsewhere) = &basis.elsewhere else { return commit };
        let requester = core.keys.asker(place.tenant, place.key.run, self.requester);
        elsewhere.withdraw(&core.keys, commit.expect(requester, elsewhere.requester))
    }

    fn write(
        &self,
        core: &Core,
        place: ShardAddress,
        _: &AskBasis,
        session: Option<SessionId>,
        commit: CommitBuilder,
    ) -> CommitBuilder {
        let ShardAddress { tenant, key } = place;
        let requester = RequesterRecord { shard: key.shard }.encode();
        put(commit, core.keys.asker(tenant, key.run, self.requester), requester, session)
    }
}

impl SlotChange for DeclineSplit {
    const OPERATION: &'static str = "decline_split";
    type Error = DeclineError;

    fn requester(&self) -> Option<WorkerId> {
        None
    }

    fn apply(
        &self,
        context: &Context<'_>,
        basis: &AskBasis,
        slot: &mut SplitRequestSlot,
        events: &mut EventCollector,
    ) -> Result<(), DeclineError> {
        ops::decline_split(context, &basis.shard.record.head, slot, self, events)
    }

    fn write(
        &self,
        core: &Core,
        place: ShardAddress,
        basis: &AskBasis,
        _: Option<SessionId>,
        commit: CommitBuilder,
    ) -> CommitBuilder {
        let ShardAddress { tenant, key } = place;
        match basis.asked.slot.open {
            Some(request) => commit.delete(core.keys.asker(tenant, key.run, request.requester)),
            None => commit,
        }
    }
}

impl Core {
    /// What a request, or the answer to one, is decided on; none if there is no such shard.
    async fn ask_basis(
        &self,
        place: ShardAddress,
        requester: Option<WorkerId>,
        operation: &'static str,
    ) -> Result<Option<AskBasis>, InfraError> {
        let now = self.now().await?;
        let Some(shard) = self.load_shard(place, operation).await? else { return Ok(None) };
        let asked = self.asked(place, &shard.record.head, operation).await?;
        let elsewhere = match requester {
            Some(requester) => Some(self.asked_elsewhere(place, requester, operation).await?),
            None => None,
        };
        Ok(Some(AskBasis { now, shard, asked, elsewhere }))
    }

    /// Opens another session next time, if this one has ended.
    pub(crate) fn forget_ended(&self, settled: &Settled) {
        if let Settled::SessionGone(ended) = settled {
            self.sessions.forget(*ended);
        }
    }

    /// What has been asked of the holder. What was asked of an earlier one does not count.
    async fn asked(
        &self,
        place: ShardAddress,
        head: &ShardHead,
        operation: &'static str,
    ) -> Result<Asked, InfraError> {
        let key = self.keys.ask(place.tenant, place.key);
        let (ask, expect) = self.advice::<SplitRequestRecord>(&key, operation).await?;
        let current = ask.filter(|ask| ask.fence == head.fence && head.lease.is_some());
        Ok(Asked { slot: current.map(|ask| ask.slot).unwrap_or_default(), expect })
    }

    /// What a worker has asked of the holder of another shard, and what says so.
    async fn asked_elsewhere(
        &self,
        place: ShardAddress,
        requester: WorkerId,
        operation: &'static str,
    ) -> Result<AskedElsewhere, InfraError> {
        let ShardAddress { tenant, key } = place;
        let requester_key = self.keys.asker(tenant, key.run, requester);
        let (before, expect) = self.advice::<RequesterRecord>(&requester_key, operation).await?;
        let nothing = AskedElsewhere { requester: expect, earlier: None };
        let Some(before) = before.filter(|before| before.shard != key.shard) else {
            return Ok(nothing);
        };
        let elsewhere = ShardAddress { tenant, key: ShardKey::new(key.run, before.shard) };
        let shard = match self.load_shard(elsewhere, operation).await {
            Ok(Some(shard)) => shard,
            // Nobody works on a damaged shard, so nobody can answer what was asked there.
            Ok(None) | Err(ShardFault::Damaged(_)) => return Ok(nothing),
            Err(ShardFault::Other(error)) => return Err(error),
        };
        let asked = self.asked(elsewhere, &shard.record.head, operation).await?;
        if asked.slot.open.is_none_or(|request| request.requester != requester) {
            return Ok(nothing);
        }
        Ok(AskedElsewhere { earlier: Some(Earlier { place: elsewhere, shard, asked }), ..nothing })
    }

    /// What becomes of a request when the holder splits. How long nobody is to ask stands.
    pub(crate) async fn answer_request(
        &self,
        place: ShardAddress,
        fence: FenceEpoch,
        operation: &'static str,
    ) -> Result<Write, InfraError> {
        let key = self.keys.ask(place.tenant, place.key);
        let (ask, _) = self.advice::<SplitRequestRecord>(&key, operation).await?;
        let ask = ask.filter(|ask| ask.fence == fence);
        let slot = ask.map(|ask| ask.slot.answered()).unwrap_or_default();
        if slot == SplitRequestSlot::default() {
            return Ok(Write::Delete { key });
        }
        Ok(Write::Put { key, value: SplitRequestRecord { fence, slot }.encode(), session: None })
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
        Some(session) => commit.put_in_session(key, value, session),
        None => commit.put(key, value),
    }
}
