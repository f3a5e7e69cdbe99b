//! What a coordinator knows of a run without asking: who holds what, who waits, who asks.
//!
//! A view is read from the store once and then follows a watch. Nothing is decided by it. It says
//! where to try, and what to tell holders besides the answer to their request; a commit decides.
//! What the coordinator stores itself goes into the view at once, so that it never looks behind
//! its own deeds.

mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use shardwright_contracts::{
    Env, FenceEpoch, LogicalTime, RunId, ShardId, ShardKey, TenantId, WorkerId,
};
use shardwright_coordination::{CapacityHint, HolderNotice, InfraError};
use shardwright_engine::fault;
use shardwright_engine::listing;
use shardwright_engine::single_flight::SingleFlight;
use shardwright_store::{
    Changes, Commit, Key, Revision, ScanPage, Store, StoreRange, Versioned, Write,
};
use state::ViewState;
use tokio::sync::{Notify, oneshot};

use crate::coordinator::Core;
use crate::keys::ViewKey;
use crate::records::RunStateRecord;
use crate::shard::ShardAddress;

/// How many records of shards are read at a time. One has up to 41 kB.
pub(crate) const RECORDS_PER_PAGE: usize = 200;
/// How long to wait before a watch that broke is set up again.
const PAUSE: Duration = Duration::from_millis(50);
const OPERATION: &str = "view";

/// What a holder is told besides the answer to its request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HolderHints {
    pub(crate) notice: Option<HolderNotice>,
    pub(crate) capacity: CapacityHint,
}

/// The views of the runs that somebody works on.
#[derive(Default)]
pub(crate) struct Views {
    views: Mutex<BTreeMap<(TenantId, RunId), Arc<RunView>>>,
    /// Where somebody makes one, so that no two of the same run are made.
    making: Mutex<BTreeMap<(TenantId, RunId), Weak<SingleFlight>>>,
}

/// What is known of one run.
pub(crate) struct RunView {
    state: Mutex<ViewState>,
    fence_floor: FenceEpoch,
    /// Rung when there may be something to claim.
    claimable: Notify,
    /// When this goes, so does the task that follows the watch.
    _alive: oneshot::Sender<()>,
}

impl Views {
    pub(crate) fn get(&self, tenant: TenantId, run: RunId) -> Option<Arc<RunView>> {
        self.lock().get(&(tenant, run)).cloned()
    }

    fn forget(&self, tenant: TenantId, run: RunId) {
        self.lock().remove(&(tenant, run));
    }

    /// Where those meet who want the view of a run made.
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

    /// Some shards that could be acquired at `now`, other ones for each worker. They are the
    /// caller's to try until it says what came of it.
    pub(crate) fn reserve_candidates(
        &self,
        worker: WorkerId,
        now: LogicalTime,
        limit: usize,
    ) -> Vec<ShardId> {
        self.lock().reserve_candidates(worker, now, limit)
    }

    /// Somebody may wait who found all of them taken out, so waiters wake up if any is left.
    pub(crate) fn give_back(&self, shards: &[ShardId]) {
        let mut state = self.lock();
        state.give_back(shards);
        let is_inviting = !shards.is_empty() && state.is_inviting();
        drop(state);
        if is_inviting {
            self.claimable.notify_waiters();
        }
    }

    /// Notes that somebody, whom the watch may not have told yet, holds a shard until `deadline`.
    pub(crate) fn note_held(&self, shard: ShardId, deadline: LogicalTime) {
        self.lock().note_held(shard, deadline);
    }

    /// Notes that a shard cannot be acquired, whatever the store has told so far.
    pub(crate) fn note_settled(&self, shard: ShardId) {
        self.lock().note_settled(shard);
    }

    pub(crate) fn capacity(&self, now: LogicalTime) -> CapacityHint {
        self.lock().capacity(now)
    }

    pub(crate) fn is_waiting(&self, worker: WorkerId) -> bool {
        self.lock().is_waiting(worker)
    }

    /// Waits until there may be something to claim that was not there before, or the run is over.
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
    /// The view of a run, made if there is none.
    pub(crate) async fn view(
        self: &Arc<Self>,
        tenant: TenantId,
        run: RunId,
    ) -> Result<Arc<RunView>, InfraError> {
        let found = || {
            // One from before the floor rose takes stale leases for good ones.
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
        let (revision, entries) = self.list(&range).await?;
        self.check_open(tenant, run, &entries).await?;
        self.replace(&mut state, revision, entries);
        let is_over = state.is_over();
        let (alive, gone) = oneshot::channel();
        let (state, claimable) = (Mutex::new(state), Notify::new());
        let view = Arc::new(RunView { state, fence_floor, claimable, _alive: alive });
        if is_over {
            // There is nothing to follow.
            return Ok(view);
        }
        self.views.lock().insert((tenant, run), Arc::clone(&view));
        let follow = Follow {
            core: Arc::downgrade(self),
            view: Arc::downgrade(&view),
            place: (tenant, run),
            range,
            env: Arc::clone(&self.env),
        };
        self.env.spawn(Box::pin(follow.run(revision, gone)));
        Ok(view)
    }

    /// What a holder is told besides the answer to its request, and takes note of its deadline.
    ///
    /// What was asked is done by now. So if the store cannot be read, nothing is told besides,
    /// rather than that anything has failed.
    pub(crate) async fn aside(
        self: &Arc<Self>,
        place: ShardAddress,
        fence: FenceEpoch,
        deadline: Option<LogicalTime>,
        now: LogicalTime,
    ) -> HolderHints {
        let shard = place.key.shard;
        let Ok(view) = self.view(place.tenant, place.key.run).await else {
            return HolderHints::default();
        };
        let mut state = view.lock();
        if let Some(deadline) = deadline {
            state.note_deadline(shard, fence, deadline);
        }
        HolderHints { notice: state.notice(shard, fence, now), capacity: state.capacity(now) }
    }

    /// What of a commit the view of its run has to know; of a checkpoint, nothing.
    pub(crate) fn watched_writes(&self, commit: &Commit) -> Vec<Write> {
        let is_watched = |write: &&Write| self.keys.parse_view(write.key()).is_some();
        commit.writes().iter().filter(is_watched).cloned().collect()
    }

    /// Puts what was just stored into the view of its run, if there is one.
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

    /// Lists a range, all at one revision.
    pub(crate) async fn list(
        &self,
        range: &StoreRange,
    ) -> Result<(Revision, Vec<(Key, Versioned)>), InfraError> {
        listing::list(&self.store, range, "view.list").await
    }

    /// Visits a range as it was at a revision or later, for whoever must not miss anything that was
    /// there then. A store may show an older state than it did before. Not all of it is in memory
    /// at once, and a first page that comes after others says that it is visited anew.
    pub(crate) async fn visit_since(
        &self,
        range: &StoreRange,
        at: Revision,
        operation: &'static str,
        mut visit: impl FnMut(bool, ScanPage) -> Result<(), InfraError> + Send,
    ) -> Result<(), InfraError> {
        let visit = Mutex::new(&mut visit);
        let read = || async {
            let in_page = |is_first: bool, page: ScanPage| {
                let is_recent = page.revision >= at;
                if is_recent {
                    let mut visit = visit.lock().unwrap_or_else(PoisonError::into_inner);
                    visit(is_first, page)?;
                }
                Ok(is_recent)
            };
            let visited =
                listing::visit_pages(&self.store, range, RECORDS_PER_PAGE, operation, in_page);
            Ok((visited.await? >= at).then_some(()))
        };
        self.driver.read_until(operation, read).await
    }

    /// Makes sure that damage took no shard out of sight: if it was the key that changed, the entry
    /// names a shard that is not there, and nobody would ever look for the one it was about.
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
        let loaded = self.store.load(&[self.keys.definition(tenant, shard)]).await;
        let snapshot = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        Ok(snapshot.values.iter().any(Option::is_some))
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

/// The task that keeps a view up to date.
struct Follow {
    core: Weak<Core>,
    view: Weak<RunView>,
    place: (TenantId, RunId),
    range: StoreRange,
    env: Arc<dyn Env>,
}

impl Follow {
    async fn run(self, mut revision: Revision, mut gone: oneshot::Receiver<()>) {
        loop {
            let Some(core) = self.core.upgrade() else { return };
            if let Ok(changes) = core.store.watch(&self.range, revision).await {
                drop(core);
                if self.follow(changes, &mut gone).await.is_none() {
                    return;
                }
            } else {
                drop(core);
                self.env.sleep(PAUSE).await;
            }
            // Something was missed: read everything anew and go on from there.
            match self.relist().await {
                Some(Ok(at)) => revision = at,
                Some(Err(_)) => self.env.sleep(PAUSE).await,
                None => return,
            }
        }
    }

    /// Follows a watch until it breaks; none if nobody looks at the view any more.
    async fn follow(&self, mut changes: Changes, gone: &mut oneshot::Receiver<()>) -> Option<()> {
        loop {
            let next = tokio::select! {
                biased;
                _ = &mut *gone => return None,
                next = changes.next() => next,
            };
            let Ok(set) = next else { return Some(()) };
            let (core, view) = (self.core.upgrade()?, self.view.upgrade()?);
            let mut state = view.lock();
            for change in &set.changes {
                if let Some((_, _, key)) = core.keys.parse_view(&change.key) {
                    let value = change.now.as_ref().map(|now| now.value.as_ref());
                    state.apply_watched(key, value, set.revision);
                }
            }
            state.reach(set.revision);
            core.after_change(&view, state, self.place);
        }
    }

    async fn relist(&self) -> Option<Result<Revision, InfraError>> {
        let core = self.core.upgrade()?;
        self.view.upgrade()?;
        let (revision, entries) = match core.list(&self.range).await {
            Ok(listed) => listed,
            Err(error) => return Some(Err(error)),
        };
        let view = self.view.upgrade()?;
        let mut state = view.lock();
        core.replace(&mut state, revision, entries);
        core.after_change(&view, state, self.place);
        Some(Ok(revision))
    }
}
