//! Joining a cluster, and membership.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::{Env, FenceEpoch, InfraError, ShardId};
use shardwright_engine::codec::Record;
use shardwright_engine::transact::{Decided, Decision, Driver, Read, Settled, Transaction};
use shardwright_engine::{Operation, operation};
use shardwright_engine::{fault, listing, watch};
use shardwright_placement::{Incarnation, NodeAddress, NodeInstance, ShardInfo, ops};
use shardwright_store::{Commit, CommitBuilder, Conflict, Expect, Revision};

use super::error::{Gone, JoinError};
use super::handle::Cluster;
use super::session::{KeptSession, Opened, Serving};
use super::shared::Core;
use crate::keys::ClusterKey;
use crate::records::LeavingRecord;

const JOIN: Operation = operation!("cluster.join");
const LEAVING: Operation = operation!("cluster.leaving");
/// Interval at which a joining node checks whether its earlier incarnation has ended.
const LOOK: Duration = Duration::from_secs(1);

/// One incarnation of a node that is a member of a cluster. Clones share it.
///
/// If all clones are dropped without [`NodeMembership::leave`], the session expires, as after a
/// crash. Only then may others claim the node's shards.
#[derive(Clone)]
pub struct NodeMembership {
    pub(super) core: Arc<Core>,
    pub(super) holder: NodeInstance,
    pub(super) lease: Arc<KeptSession>,
}

/// A gate that is a member of a cluster. Clones share the membership.
#[derive(Clone)]
pub struct GateMembership {
    core: Arc<Core>,
    address: NodeAddress,
    lease: Arc<KeptSession>,
}

impl Cluster {
    /// Joins as a node.
    ///
    /// While an earlier incarnation with this address is a member, this waits for it to end,
    /// because it may still be serving.
    pub async fn join(
        &self,
        address: NodeAddress,
        weight: NonZeroU32,
    ) -> Result<NodeMembership, JoinError> {
        let core = &self.core;
        if core.keys.is_text() && weight != NonZeroU32::MIN {
            return Err(JoinError::Weight);
        }
        let key = ClusterKey::Member(address.clone());
        let value = core.format().member(&address, weight);
        let deadline = core.env.monotonic().saturating_add(core.options.join_patience);
        // Retry loop: each attempt waits for the earlier incarnation to end and opens its own
        // session.
        for _ in 0..=core.options.conflict_retries {
            core.await_absence(&address, deadline).await?;
            if core.keys.is_text() {
                core.release_dead_claims(&address).await?;
            }
            let opened = core.open_session().await?;
            let stored_key = core.keys.key(&key);
            let commit = Commit::builder().expect(stored_key.clone(), Expect::Absent);
            let commit = core.floor.compare_in(core.comparing_existence(commit));
            let (value, session) = (value.clone(), opened.session.id);
            let commit = commit.put_in_session(stored_key, value, session);
            let settled = core.commit(JOIN, commit).await;
            if let Ok(Settled::Stored(revision)) = settled {
                return Ok(core.admit(address, revision, &opened));
            }
            // If closing fails, the session expires.
            let _closed = core.close_session(opened.session.id).await;
            match settled? {
                Settled::SessionGone(_) => return Err(JoinError::SessionEnded),
                Settled::Conflict(conflict) => core.learn_existence(&conflict)?,
                Settled::Stored(_) | Settled::Overtaken(_) | Settled::Full(_) => {}
            }
            core.reload(JOIN, [key.clone()]).await?;
            core.reload_floor().await?;
        }
        Err(fault::contention(JOIN).into())
    }

    /// Joins as a gate. Replaces an existing gate with the same address, because a gate owns
    /// nothing.
    pub async fn join_gate(&self, address: NodeAddress) -> Result<GateMembership, JoinError> {
        let core = &self.core;
        let opened = core.open_session().await?;
        let mut join = GateJoin { core, address: &address, opened: &opened, refused: None };
        if let Err(error) = core.driver.transact(&mut join).await {
            // If closing fails, the session expires.
            let _closed = core.close_session(opened.session.id).await;
            return Err(error);
        }
        let lease = Arc::new(core.keep(&opened, None));
        Ok(GateMembership { core: Arc::clone(core), address, lease })
    }
}

impl Core {
    /// Makes a join compare that the cluster exists. The member grants no fence of a deleted one.
    fn comparing_existence(&self, commit: CommitBuilder) -> CommitBuilder {
        let existence = self.existence.get();
        self.lock().raise_floor(existence.floor());
        existence.compare_in(&self.keys, commit)
    }

    /// Adopts what a refused commit has found of the cluster.
    pub(super) fn learn_existence(&self, conflict: &Conflict) -> Result<(), Gone> {
        self.existence.learn(&self.keys, &self.options, conflict)
    }

    fn admit(
        self: &Arc<Self>,
        address: NodeAddress,
        revision: Revision,
        opened: &Opened,
    ) -> NodeMembership {
        self.publish();
        let holder = NodeInstance { address, incarnation: Incarnation::from_raw(revision.get()) };
        let lease = Arc::new(self.keep(opened, Some(holder.clone())));
        NodeMembership { core: Arc::clone(self), holder, lease }
    }

    /// Checks whether the store was restored from a backup meanwhile. That invalidates earlier
    /// claims.
    async fn reload_floor(&self) -> Result<(), InfraError> {
        let (found, _) = listing::load_one(&self.store, self.floor.key(), JOIN).await?;
        self.floor.learn(found.as_ref(), JOIN)?;
        self.lock().raise_floor(self.floor.get());
        Ok(())
    }

    /// Waits until no node with this address is a member.
    async fn await_absence(
        &self,
        address: &NodeAddress,
        deadline: Duration,
    ) -> Result<(), JoinError> {
        let key = &ClusterKey::Member(address.clone());
        let is_member = || self.lock().expect(key) != Expect::Absent;
        if !is_member() {
            return Ok(());
        }
        let left = deadline.saturating_sub(self.env.monotonic());
        let driver = Driver::waiting(self.store.clone());
        let absence = driver.read_until(JOIN, |_| async {
            let mut views = self.views.subscribe();
            if is_member() {
                tokio::select! {
                    biased;
                    _ = views.changed() => {}
                    () = self.env.sleep(LOOK) => self.reload(JOIN, [key.clone()]).await?,
                }
            }
            Ok((!is_member()).then_some(()))
        });
        tokio::select! {
            biased;
            absent = absence => Ok(absent?),
            () = self.env.sleep(left) => Err(JoinError::AddressTaken(address.clone())),
        }
    }

    /// Releases the shards of an ended incarnation. The text format cannot distinguish it from the
    /// next one.
    async fn release_dead_claims(&self, address: &NodeAddress) -> Result<(), InfraError> {
        self.refresh().await?;
        let claims: Vec<_> = {
            let state = self.lock();
            let is_held = |info: &ShardInfo<'_>| held_at(info, address).is_some();
            state.map().iter().filter(is_held).map(|info| info.shard).collect()
        };
        let released = self.each(claims, |shard| async move {
            let mut release = DeadClaim { core: self, address, shard };
            self.driver.transact(&mut release).await
        });
        released.await.into_iter().collect()
    }
}

/// The claim of a node that is no longer a member.
struct DeadClaim<'c> {
    core: &'c Core,
    address: &'c NodeAddress,
    shard: ShardId,
}

/// The node at an address, if it holds a shard, and its fence.
fn held_at(info: &ShardInfo<'_>, address: &NodeAddress) -> Option<(NodeInstance, FenceEpoch)> {
    let current = info.current.filter(|current| current.address == address)?;
    Some((current.to_holder(), info.fence?))
}

impl Transaction for DeadClaim<'_> {
    type Basis = ();
    type Answer = ();
    type Output = ();
    type Error = InfraError;

    fn operation(&self) -> Operation {
        JOIN
    }

    fn first_read(&self) -> Read {
        Read::Cached
    }

    async fn load(&mut self, read: Read) -> Result<((), Read), InfraError> {
        if read == Read::Fresh {
            self.core.reload(JOIN, [ClusterKey::Shard(self.shard)]).await?;
        }
        Ok(((), read))
    }

    async fn decide(&mut self, (): &()) -> Decided<(), InfraError> {
        let state = self.core.lock();
        let release = || {
            let info = state.map().info(self.shard).ok()?;
            let (holder, fence) = held_at(&info, self.address)?;
            let why = ops::ReleaseReason::Leaving;
            let released = ops::release(info, &holder, fence, 0, why).ok()?;
            let member = self.core.keys.key(&ClusterKey::Member(self.address.clone()));
            let commit = Commit::builder().expect(member, Expect::Absent);
            Some(state.writing(commit, info, &released))
        };
        Ok(release().map_or(Decision::Answer(()), |commit| Decision::Commit(commit, ())))
    }

    fn finish(&mut self, (): (), (): (), stored: Option<(&Commit, Revision)>) {
        self.core.note_stored(stored);
    }
}

impl NodeMembership {
    /// This incarnation of the node.
    #[must_use]
    pub const fn holder(&self) -> &NodeInstance {
        &self.holder
    }

    /// Address of the node.
    #[must_use]
    pub const fn address(&self) -> &NodeAddress {
        &self.holder.address
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> Cluster {
        Cluster { core: Arc::clone(&self.core) }
    }

    /// Marks the node as about to leave, or removes the mark. A marked node gets no shards, and its
    /// shards move elsewhere. The mark is deleted with the membership.
    pub async fn set_leaving(&self, leaving: bool) -> Result<(), InfraError> {
        self.core.driver.transact(&mut LeavingMark { node: self, leaving, is_over: false }).await
    }
}

/// The mark of a node that is about to leave.
struct LeavingMark<'n> {
    node: &'n NodeMembership,
    leaving: bool,
    is_over: bool,
}

impl LeavingMark<'_> {
    fn key(&self) -> ClusterKey {
        ClusterKey::Leaving(self.node.holder.address.clone())
    }
}

impl Transaction for LeavingMark<'_> {
    type Basis = Expect;
    type Answer = ();
    type Output = ();
    type Error = InfraError;

    fn operation(&self) -> Operation {
        LEAVING
    }

    /// Never cached: the cache may have the mark of an earlier incarnation, which was deleted with
    /// it.
    async fn load(&mut self, read: Read) -> Result<(Expect, Read), InfraError> {
        if !self.is_over {
            self.node.core.reload(LEAVING, [self.key()]).await?;
        }
        Ok((self.node.core.lock().expect(&self.key()), read))
    }

    async fn decide(&mut self, found: &Expect) -> Decided<(), InfraError> {
        if self.is_over {
            return Ok(Decision::Answer(()));
        }
        let key = self.node.core.keys.key(&self.key());
        let commit = Commit::builder().expect(key.clone(), *found);
        Ok(match (self.leaving, found) {
            (true, Expect::At(_)) | (false, Expect::Absent) => Decision::Answer(()),
            (true, Expect::Absent) => {
                let session = self.node.lease.session;
                Decision::Commit(commit.put_in_session(key, LeavingRecord.encode(), session), ())
            }
            (false, Expect::At(_)) => Decision::Commit(commit.delete(key), ()),
        })
    }

    fn not_stored(&mut self, (): (), settled: &Settled) {
        if let Settled::SessionGone(_) = settled {
            // The session, and with it the membership, has ended.
            self.node.lease.end();
            self.is_over = true;
        }
    }

    fn finish(&mut self, _: Expect, (): (), stored: Option<(&Commit, Revision)>) {
        if stored.is_some() {
            self.node.core.note_stored(stored);
            self.node.core.publish();
        }
    }
}

/// Makes a gate a member.
struct GateJoin<'c> {
    core: &'c Core,
    address: &'c NodeAddress,
    opened: &'c Opened,
    refused: Option<JoinError>,
}

impl Transaction for GateJoin<'_> {
    type Basis = Expect;
    type Answer = ();
    type Output = ();
    type Error = JoinError;

    fn operation(&self) -> Operation {
        JOIN
    }

    fn first_read(&self) -> Read {
        Read::Cached
    }

    async fn load(&mut self, read: Read) -> Result<(Expect, Read), InfraError> {
        let key = ClusterKey::Gate(self.address.clone());
        if read == Read::Fresh && self.refused.is_none() {
            self.core.reload(JOIN, [key.clone()]).await?;
        }
        Ok((self.core.lock().expect(&key), read))
    }

    async fn decide(&mut self, found: &Expect) -> Decided<(), JoinError> {
        if let Some(refused) = self.refused.take() {
            return Ok(Decision::Refuse(refused));
        }
        let key = self.core.keys.key(&ClusterKey::Gate(self.address.clone()));
        let value = self.core.format().gate(self.address);
        let commit = Commit::builder().expect(key.clone(), *found);
        let commit = self.core.comparing_existence(commit);
        let commit = commit.put_in_session(key, value, self.opened.session.id);
        Ok(Decision::Commit(commit, ()))
    }

    fn not_stored(&mut self, (): (), settled: &Settled) {
        self.refused = match settled {
            Settled::SessionGone(_) => Some(JoinError::SessionEnded),
            Settled::Conflict(conflict) => {
                self.core.learn_existence(conflict).err().map(Into::into)
            }
            Settled::Stored(_) | Settled::Overtaken(_) | Settled::Full(_) => None,
        };
    }

    fn finish(&mut self, _: Expect, (): (), stored: Option<(&Commit, Revision)>) {
        self.core.note_stored(stored);
        self.core.publish();
    }
}

macro_rules! lasting_as_a_session {
    ($($membership:ident),+) => {$(
        impl $membership {
            /// Whether the member may serve, and until when if no keep-alive succeeds.
            ///
            /// The deadline may pass and be extended later. The session then never ended, so no
            /// other node has claimed the shards.
            #[must_use]
            pub fn serving(&self) -> Serving {
                self.lease.serving()
            }

            /// Whether the member may serve now.
            #[must_use]
            pub fn may_serve(&self) -> bool {
                match self.serving() {
                    Serving::Until(until) => self.core.env.monotonic() < until,
                    Serving::Ended => false,
                }
            }

            /// Subscribes to changes of [`Self::serving`].
            #[must_use]
            pub fn serving_changes(&self) -> watch::Receiver<Serving> {
                self.lease.changes()
            }

            /// Ends the membership at once. Other nodes may then claim its shards.
            pub async fn leave(&self) -> Result<(), InfraError> {
                self.lease.end();
                self.core.close_session(self.lease.session).await
            }
        }

        impl std::fmt::Debug for $membership {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let serving = self.lease.serving();
                let name = stringify!($membership);
                f.debug_struct(name).field("serving", &serving).finish_non_exhaustive()
            }
        }
    )+};
}

lasting_as_a_session!(NodeMembership, GateMembership);

impl GateMembership {
    /// Address of the gate.
    #[must_use]
    pub const fn address(&self) -> &NodeAddress {
        &self.address
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> Cluster {
        Cluster { core: Arc::clone(&self.core) }
    }
}
