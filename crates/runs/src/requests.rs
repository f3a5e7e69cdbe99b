//! Split requests to the holder of a shard.
//!
//! A request belongs to the holder's fence: a new holder makes it void without another write. It
//! also belongs to the requester's session and is deleted with it.

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
use shardwright_engine::transact::{self, Decided, Decision, Read, Settled, Transaction};
use shardwright_engine::{Operation, operation};
use shardwright_store::{Commit, CommitBuilder, Expect, Key, Revision, SessionId, Write};

use crate::coordinator::{Core, StoredCoordinator};
use crate::keys::RunKeys;
use crate::records::{RequesterRecord, SplitRequestRecord};
use crate::shard::{Loaded, ShardAddress, ShardFault};

/// A stored split request.
struct StoredRequest {
    slot: SplitRequestSlot,
    expect: Expect,
}

/// The earlier request of a worker.
struct OtherRequest {
    /// Expectation of the worker's own key.
    requester: Expect,
    earlier: Option<EarlierRequest>,
}

/// A request to the current holder of another shard, expired or not.
struct EarlierRequest {
    address: ShardAddress,
    shard: Loaded,
    request: StoredRequest,
}

impl OtherRequest {
    fn is_open_at(&self, now: LogicalTime, fence_floor: FenceEpoch) -> bool {
        self.earlier.as_ref().is_some_and(|EarlierRequest { address, shard, request }| {
            let gate = shard.run_gate(fence_floor);
            let context = shard.context(now, address.tenant, &gate);
            ops::open_request(&context, &shard.record.head, &request.slot).is_some()
        })
    }

    /// Withdraws the earlier request, so that no clock considers it open. The key remains: if it
    /// were deleted, a late copy of the request's commit could be applied again.
    fn withdraw(&self, keys: &RunKeys, commit: CommitBuilder) -> CommitBuilder {
        let Some(EarlierRequest { address, shard, request }) = &self.earlier else { return commit };
        let fence = shard.record.head.fence;
        let emptied = SplitRequestRecord { fence, slot: request.slot.answered() }.encode();
        let key = keys.split_request(address.tenant, address.key);
        commit.expect(key.clone(), request.expect).put(key, emptied)
    }
}

impl StoredCoordinator {
    /// Requests a part of a shard, or declines such a request.
    pub(crate) async fn change_slot<C: SlotChange>(
        &self,
        address: ShardAddress,
        change: C,
    ) -> Result<(), C::Error> {
        let mut transaction =
            SlotTransaction { core: &self.core, address, change, overtaken: None };
        self.core.driver.transact(&mut transaction).await
    }
}

/// State that a request is decided on: the shard and its stored request.
pub(crate) struct SplitRequestBasis {
    now: LogicalTime,
    shard: Loaded,
    request: StoredRequest,
    other: Option<OtherRequest>,
}

/// A change of a shard's split request.
pub(crate) trait SlotChange: Send + Sync {
    const OPERATION: Operation;
    type Error: From<InfraError> + From<ShardNotFound> + Send;

    /// The worker whose requests to other holders count.
    fn requester(&self) -> Option<WorkerId>;

    /// Applies the rule of the protocol.
    fn apply(
        &self,
        context: &Context<'_>,
        basis: &SplitRequestBasis,
        slot: &mut SplitRequestSlot,
        events: &mut EventCollector,
    ) -> Result<(), Self::Error>;

    /// Adds comparisons of the change, besides the request and its holder.
    fn compare(
        &self,
        _core: &Core,
        _address: ShardAddress,
        _basis: &SplitRequestBasis,
        commit: CommitBuilder,
    ) -> CommitBuilder {
        commit
    }

    /// Adds the writes about the requester.
    fn write(
        &self,
        core: &Core,
        address: ShardAddress,
        basis: &SplitRequestBasis,
        session: Option<SessionId>,
        commit: CommitBuilder,
    ) -> CommitBuilder;
}

/// Stores a [`SlotChange`]. Repeating it is harmless.
struct SlotTransaction<'c, C> {
    core: &'c Arc<Core>,
    address: ShardAddress,
    change: C,
    /// Error to report instead of a refusal: an attempt may have been stored.
    overtaken: Option<InfraError>,
}

impl<C: SlotChange> SlotTransaction<'_, C> {
    /// Refuses the change, unless an overtaken attempt may have been stored.
    fn refuse(&self, refusal: C::Error) -> Decided<EventCollector, C::Error> {
        transact::refuse(refusal, self.overtaken.as_ref())
    }
}

impl<C: SlotChange> Transaction for SlotTransaction<'_, C> {
    type Basis = Option<SplitRequestBasis>;
    type Answer = EventCollector;
    type Output = ();
    type Error = C::Error;

    fn operation(&self) -> Operation {
        C::OPERATION
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        let requester = self.change.requester();
        Ok((self.core.split_request_basis(self.address, requester, C::OPERATION).await?, read))
    }

    async fn decide(&mut self, basis: &Self::Basis) -> Decided<EventCollector, C::Error> {
        let (core, ShardAddress { tenant, key }) = (self.core, self.address);
        let Some(basis) = basis else {
            return self.refuse(ShardNotFound { key }.into());
        };
        let SplitRequestBasis { now, shard, request, .. } = basis;
        let gate = shard.run_gate(core.fence_floor());
        let context = shard.context(*now, tenant, &gate);
        let (mut slot, mut events) = (request.slot, core.publisher.collector());
        if let Err(refusal) = self.change.apply(&context, basis, &mut slot, &mut events) {
            return self.refuse(refusal);
        }
        let session = core.session().await?;
        let stored = SplitRequestRecord { fence: shard.record.head.fence, slot }.encode();
        let commit = Commit::builder()
            .guard(core.keys.gate(tenant, key.run), Expect::At(shard.basis.gate))
            .expect(core.keys.owner(tenant, key), shard.basis.owner)
            .expect(core.keys.split_request(tenant, key), request.expect);
        let commit = self.change.compare(core, self.address, basis, commit);
        let commit = put(commit, core.keys.split_request(tenant, key), stored, session);
        Ok(Decision::Commit(self.change.write(core, self.address, basis, session, commit), events))
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
        self.core.note_stored(self.address.tenant, self.address.key.run, stored);
        self.core.publisher.publish(events);
    }
}

impl SlotChange for RequestSplit {
    const OPERATION: Operation = operation!("request_split");
    type Error = SplitRequestError;

    fn requester(&self) -> Option<WorkerId> {
        Some(self.requester)
    }

    fn apply(
        &self,
        context: &Context<'_>,
        basis: &SplitRequestBasis,
        slot: &mut SplitRequestSlot,
        events: &mut EventCollector,
    ) -> Result<(), SplitRequestError> {
        let (now, floor) = (basis.now, context.run.fence_floor);
        let open_elsewhere = basis.other.as_ref().is_some_and(|it| it.is_open_at(now, floor));
        ops::request_split(context, &basis.shard.record.head, slot, self, open_elsewhere, events)
    }

    fn compare(
        &self,
        core: &Core,
        address: ShardAddress,
        basis: &SplitRequestBasis,
        commit: CommitBuilder,
    ) -> CommitBuilder {
        let Some(other) = &basis.other else { return commit };
        let requester = core.keys.requester(address.tenant, address.key.run, self.requester);
        other.withdraw(&core.keys, commit.expect(requester, other.requester))
    }

    fn write(
        &self,
        core: &Core,
        address: ShardAddress,
        _: &SplitRequestBasis,
        session: Option<SessionId>,
        commit: CommitBuilder,
    ) -> CommitBuilder {
        let ShardAddress { tenant, key } = address;
        let requester = RequesterRecord { shard: key.shard }.encode();
        put(commit, core.keys.requester(tenant, key.run, self.requester), requester, session)
    }
}

impl SlotChange for DeclineSplit {
    const OPERATION: Operation = operation!("decline_split");
    type Error = DeclineError;

    fn requester(&self) -> Option<WorkerId> {
        None
    }

    fn apply(
        &self,
        context: &Context<'_>,
        basis: &SplitRequestBasis,
        slot: &mut SplitRequestSlot,
        events: &mut EventCollector,
    ) -> Result<(), DeclineError> {
        ops::decline_split(context, &basis.shard.record.head, slot, self, events)
    }

    fn write(
        &self,
        core: &Core,
        address: ShardAddress,
        basis: &SplitRequestBasis,
        _: Option<SessionId>,
        commit: CommitBuilder,
    ) -> CommitBuilder {
        let ShardAddress { tenant, key } = address;
        match basis.request.slot.open {
            Some(request) => commit.delete(core.keys.requester(tenant, key.run, request.requester)),
            None => commit,
        }
    }
}

impl Core {
    /// Loads the basis of a request or of its answer; none if the shard does not exist.
    async fn split_request_basis(
        &self,
        address: ShardAddress,
        requester: Option<WorkerId>,
        operation: Operation,
    ) -> Result<Option<SplitRequestBasis>, InfraError> {
        let now = self.now().await?;
        let Some(shard) = self.load_shard(address, operation).await? else { return Ok(None) };
        let request = self.stored_request(address, &shard.record.head, operation).await?;
        let other = match requester {
            Some(requester) => Some(self.other_request(address, requester, operation).await?),
            None => None,
        };
        Ok(Some(SplitRequestBasis { now, shard, request, other }))
    }

    /// Forgets an ended session, so that the next operation opens another.
    pub(crate) fn forget_ended(&self, settled: &Settled) {
        if let Settled::SessionGone(ended) = settled {
            self.sessions.forget(*ended);
        }
    }

    /// Loads the request to the current holder. Requests to earlier holders are void.
    async fn stored_request(
        &self,
        address: ShardAddress,
        head: &ShardHead,
        operation: Operation,
    ) -> Result<StoredRequest, InfraError> {
        let key = self.keys.split_request(address.tenant, address.key);
        let (stored, expect) = self.advice::<SplitRequestRecord>(&key, operation).await?;
        let current = stored.filter(|stored| stored.fence == head.fence && head.lease.is_some());
        Ok(StoredRequest { slot: current.map(|stored| stored.slot).unwrap_or_default(), expect })
    }

    /// Loads a worker's request to the holder of another shard.
    async fn other_request(
        &self,
        address: ShardAddress,
        requester: WorkerId,
        operation: Operation,
    ) -> Result<OtherRequest, InfraError> {
        let ShardAddress { tenant, key } = address;
        let requester_key = self.keys.requester(tenant, key.run, requester);
        let (before, expect) = self.advice::<RequesterRecord>(&requester_key, operation).await?;
        let nothing = OtherRequest { requester: expect, earlier: None };
        let Some(before) = before.filter(|before| before.shard != key.shard) else {
            return Ok(nothing);
        };
        let elsewhere = ShardAddress { tenant, key: ShardKey::new(key.run, before.shard) };
        let shard = match self.load_shard(elsewhere, operation).await {
            Ok(Some(shard)) => shard,
            // A damaged shard has no active holder to answer.
            Ok(None) | Err(ShardFault::Damaged(_)) => return Ok(nothing),
            Err(ShardFault::Other(error)) => return Err(error),
        };
        let request = self.stored_request(elsewhere, &shard.record.head, operation).await?;
        if request.slot.open.is_none_or(|request| request.requester != requester) {
            return Ok(nothing);
        }
        Ok(OtherRequest {
            earlier: Some(EarlierRequest { address: elsewhere, shard, request }),
            ..nothing
        })
    }

    /// Returns the write that answers a request when the holder splits. The pause between requests
    /// remains.
    pub(crate) async fn answer_request(
        &self,
        address: ShardAddress,
        fence: FenceEpoch,
        operation: Operation,
    ) -> Result<Write, InfraError> {
        let key = self.keys.split_request(address.tenant, address.key);
        let (stored, _) = self.advice::<SplitRequestRecord>(&key, operation).await?;
        let stored = stored.filter(|stored| stored.fence == fence);
        let slot = stored.map(|stored| stored.slot.answered()).unwrap_or_default();
        if slot == SplitRequestSlot::default() {
            return Ok(Write::Delete { key });
        }
        Ok(Write::Put { key, value: SplitRequestRecord { fence, slot }.encode(), session: None })
    }

    /// Loads an advisory record. One that cannot be read counts as missing and is overwritten.
    async fn advice<T: Record>(
        &self,
        key: &Key,
        operation: Operation,
    ) -> Result<(Option<T>, Expect), InfraError> {
        Ok(match self.load_one(key, operation).await? {
            (Some(found), _) => (T::decode(&found.value).ok(), Expect::At(found.revision)),
            (None, _) => (None, Expect::Absent),
        })
    }
}

fn put(commit: CommitBuilder, key: Key, value: Bytes, session: Option<SessionId>) -> CommitBuilder {
    match session {
        Some(session) => commit.put_in_session(key, value, session),
        None => commit.put(key, value),
    }
}
