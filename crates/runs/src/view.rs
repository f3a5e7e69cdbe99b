//! A coordinator's view of a run: holders, waiting workers and split requests.
//!
//! A view is listed once and then follows a watch. It suggests which shards to try and what hints
//! to give to holders, and a commit decides. Writes of the coordinator enter the view at once, so
//! that it never lags behind them.

mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use shardwright_contracts::{
    FenceEpoch, LogicalTime, RunId, ShardId, ShardKey, TenantId, WorkerId,
};
use shardwright_coordination::{CapacityHint, HolderNotice, InfraError};
use shardwright_engine::fault;
use shardwright_engine::follow::{Follower, follow};
use shardwright_engine::listing;
use shardwright_engine::single_flight::SingleFlight;
use shardwright_engine::{Operation, operation};
use shardwright_store::{AnyStore, ChangeSet, Commit, Key, Revision, StoreRange, Versioned, Write};
use state::ViewState;
use tokio::sync::{Notify, oneshot};

use crate::coordinator::Core;
use crate::keys::ViewKey;
use crate::records::RunStateRecord;
use crate::shard::ShardAddress;

const OPERATION: Operation = operation!("view");

/// Hints that a holder gets with the answer to its request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HolderHints {
    pub(crate) notice: Option<HolderNotice>,
    pub(crate) capacity: CapacityHint,
}

/// Views of the runs that are being worked on.
#[derive(Default)]
pub(crate) struct Views {
    views: Mutex<BTreeMap<(TenantId, RunId), Arc<RunView>>>,
    /// Views that are being created, so that each is created once.
    making: Mutex<BTreeMap<(TenantId, RunId), Weak<SingleFlight>>>,
}

/// View of one run.
pub(crate) struct RunView {
    state: Mutex<ViewState>,
    fence_floor: FenceEpoch,
    /// Notified when a shard may be claimable.
    claimable: Notify,
    /// Dropping it stops the task that follows the watch.
    _alive: oneshot::Sender<()>,
}

impl Views {
    pub(crate) fn get(&self, tenant: TenantId, run: RunId) -> Option<Arc<RunView>> {
        self.lock().get(&(tenant, run)).cloned()
    }

    fn forget(&self, tenant: TenantId, run: RunId) {
        self.lock().remove(&(tenant, run));
    }

    /// Shared creation of a run's view.
    fn making(&self, tenant: TenantId, run: RunId) -> Arc<SingleFlight> {
        let mut making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        making.retain(|_, together| together.strong_count() > 0);
        if let Some(together) = making.get(&(tenant, run)).and_then(Weak::upgrade) {
            return together;
        }
        let together = Arc::default();
        making.insert((tenant, run), Arc::downgrade(&together));
        together
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(TenantId, RunId), Arc<RunView>>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunView {
    fn lock(&self) -> MutexGuard<'_, ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn gate(&self) -> Option<(RunStateRecord, Revision)> {
        self.lock().gate()
    }

    /// Reserves some claimable shards, different ones for each worker. Other claims skip them until
    /// they are given back.
    pub(crate) fn reserve_candidates(
        &self,
        worker: WorkerId,
        now: LogicalTime,
        limit: usize,
    ) -> Vec<ShardId> {
        self.lock().reserve_candidates(worker, now, limit)
    }

    /// Wakes waiting workers if a shard is left: they may have found all of them reserved.
    pub(crate) fn give_back(&self, shards: &[ShardId]) {
        let mut state = self.lock();
        state.give_back(shards);
        let is_inviting = !shards.is_empty() && state.is_inviting();
        drop(state);
        if is_inviting {
            self.claimable.notify_waiters();
        }
    }

    /// Records a holder that the watch has not delivered yet.
    pub(crate) fn note_held(&self, shard: ShardId, deadline: LogicalTime) {
        self.lock().note_held(shard, deadline);
    }

    /// Records that a shard cannot be acquired.
    pub(crate) fn note_settled(&self, shard: ShardId) {
        self.lock().note_settled(shard);
    }

    pub(crate) fn capacity(&self, now: LogicalTime) -> CapacityHint {
        self.lock().capacity(now)
    }

    pub(crate) fn is_waiting(&self, worker: WorkerId) -> bool {
        self.lock().is_waiting(worker)
    }

    /// Waits until a shard may be claimable or the run is over.
    pub(crate) async fn claimable(&self) {
        let rung = self.claimable.notified();
        let has_rung = {
            let state = self.lock();
            state.is_over() || state.is_inviting()
        };
        if !has_rung {
            rung.await;
        }
    }
}

impl Core {
    /// The view of a run, created on first use.
    pub(crate) async fn view(
        self: &Arc<Self>,
        tenant: TenantId,
        run: RunId,
    ) -> Result<Arc<RunView>, InfraError> {
        let found = || {
            // A view from before the fence floor rose treats stale leases as valid.
            let floor = self.fence_floor();
            self.views.get(tenant, run).filter(|view| view.fence_floor == floor)
        };
        if let Some(view) = found() {
            return Ok(view);
        }
        let making = self.views.making(tenant, run);
        making.get(found, self.make_view(tenant, run)).await
    }

    async fn make_view(
        self: &Arc<Self>,
        tenant: TenantId,
        run: RunId,
    ) -> Result<Arc<RunView>, InfraError> {
        let range = self.keys.view(tenant, run);
        let fence_floor = self.fence_floor();
        let mut state = ViewState::new(self.config.skew_allowance_ms, fence_floor);
        let (revision, entries) = self.list(&range, OPERATION).await?;
        self.check_open(tenant, run, &entries).await?;
        self.replace(&mut state, revision, entries);
        let is_over = state.is_over();
        let (alive, gone) = oneshot::channel();
        let (state, claimable) = (Mutex::new(state), Notify::new());
        let view = Arc::new(RunView { state, fence_floor, claimable, _alive: alive });
        if is_over {
            // A finished run has no changes to follow.
            return Ok(view);
        }
        self.views.lock().insert((tenant, run), Arc::clone(&view));
        let follower = FollowedView {
            core: Arc::downgrade(self),
            view: Arc::downgrade(&view),
            run: (tenant, run),
            range: range.clone(),
        };
        let env = Arc::clone(&self.env);
        self.env.spawn(Box::pin(follow(follower, range, env, revision, gone)));
        Ok(view)
    }

    /// Returns the hints for a holder, and records its new deadline.
    ///
    /// The holder's operation is already stored. So a failed read gives no hints instead of an
    /// error.
    pub(crate) async fn holder_hints(
        self: &Arc<Self>,
        address: ShardAddress,
        fence: FenceEpoch,
        deadline: Option<LogicalTime>,
        now: LogicalTime,
    ) -> HolderHints {
        let shard = address.key.shard;
        let Ok(view) = self.view(address.tenant, address.key.run).await else {
            return HolderHints::default();
        };
        let mut state = view.lock();
        if let Some(deadline) = deadline {
            state.note_deadline(shard, fence, deadline);
        }
        HolderHints { notice: state.notice(shard, fence, now), capacity: state.capacity(now) }
    }

    /// The writes of a commit that belong in the view. A checkpoint has none.
    pub(crate) fn watched_writes(&self, commit: &Commit) -> Vec<Write> {
        let is_watched = |write: &&Write| self.keys.parse_view(write.key()).is_some();
        commit.writes().iter().filter(is_watched).cloned().collect()
    }

    /// Applies stored writes to the view of their run, if it exists.
    pub(crate) fn note_commit(
        &self,
        tenant: TenantId,
        run: RunId,
        revision: Revision,
        writes: &[Write],
    ) {
        if writes.is_empty() {
            return;
        }
        let Some(view) = self.views.get(tenant, run) else { return };
        let mut state = view.lock();
        for write in writes {
            if let Some((_, _, key)) = self.keys.parse_view(write.key()) {
                let value = match write {
                    Write::Put { value, .. } => Some(value),
                    Write::Delete { .. } => None,
                };
                state.apply_own(key, value.map(AsRef::as_ref), revision);
            }
        }
        self.after_change(&view, state, (tenant, run));
    }

    /// Applies what a transaction has stored to the view of its run, if anything.
    pub(crate) fn note_stored(
        &self,
        tenant: TenantId,
        run: RunId,
        stored: Option<(&Commit, Revision)>,
    ) {
        if let Some((commit, revision)) = stored {
            self.note_commit(tenant, run, revision, commit.writes());
        }
    }

    /// Lists a range, all at one revision.
    pub(crate) async fn list(
        &self,
        range: &StoreRange,
        operation: Operation,
    ) -> Result<(Revision, Vec<(Key, Versioned)>), InfraError> {
        listing::list(&self.driver, range, operation).await
    }

    /// Fails if a damaged key hides a shard: the key then names a shard that does not exist, and
    /// the original shard would never be claimed.
    async fn check_open(
        &self,
        tenant: TenantId,
        run: RunId,
        entries: &[(Key, Versioned)],
    ) -> Result<(), InfraError> {
        for (key, _) in entries.iter().filter(|(_, found)| found.is_damaged) {
            let shard = match self.keys.parse_view(key) {
                Some((_, _, ViewKey::Open(shard))) => Some(shard),
                Some(_) => continue,
                None => None,
            };
            let is_there = match shard {
                Some(shard) => self.has_shard(tenant, ShardKey::new(run, shard)).await?,
                None => false,
            };
            if !is_there {
                return Err(fault::corrupt(OPERATION, format!("the entry {key} is damaged")));
            }
        }
        Ok(())
    }

    async fn has_shard(&self, tenant: TenantId, shard: ShardKey) -> Result<bool, InfraError> {
        let (found, _) = self.load_one(&self.keys.definition(tenant, shard), OPERATION).await?;
        Ok(found.is_some())
    }

    fn replace(&self, state: &mut ViewState, revision: Revision, entries: Vec<(Key, Versioned)>) {
        let parsed = entries.iter().filter_map(|(key, found)| {
            let (_, _, key) = self.keys.parse_view(key)?;
            Some((key, found.value.as_ref(), found.revision))
        });
        state.replace(revision, parsed);
    }

    fn after_change(
        &self,
        view: &RunView,
        state: MutexGuard<'_, ViewState>,
        (tenant, run): (TenantId, RunId),
    ) {
        let (is_over, is_inviting) = (state.is_over(), state.is_inviting());
        drop(state);
        if is_over {
            self.views.forget(tenant, run);
        }
        if is_over || is_inviting {
            view.claimable.notify_waiters();
        }
    }
}

/// The view of a run that follows its keys.
struct FollowedView {
    core: Weak<Core>,
    view: Weak<RunView>,
    run: (TenantId, RunId),
    range: StoreRange,
}

impl Follower for FollowedView {
    fn store(&self) -> Option<AnyStore> {
        Some(self.core.upgrade()?.store.clone())
    }

    fn apply(&self, sets: &[ChangeSet]) -> Option<()> {
        let (core, view) = (self.core.upgrade()?, self.view.upgrade()?);
        let mut state = view.lock();
        for set in sets {
            for change in &set.changes {
                if let Some((_, _, key)) = core.keys.parse_view(&change.key) {
                    let value = change.now.as_ref().map(|now| now.value.as_ref());
                    state.apply_watched(key, value, set.revision);
                }
            }
            state.reach(set.revision);
        }
        core.after_change(&view, state, self.run);
        Some(())
    }

    async fn relist(&self) -> Option<Result<Revision, InfraError>> {
        let core = self.core.upgrade()?;
        self.view.upgrade()?;
        let (revision, entries) = match core.list(&self.range, OPERATION).await {
            Ok(listed) => listed,
            Err(error) => return Some(Err(error)),
        };
        let view = self.view.upgrade()?;
        let mut state = view.lock();
        core.replace(&mut state, revision, entries);
        core.after_change(&view, state, self.run);
        Some(Ok(revision))
    }
}
