use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use shardwright_contracts::{Env, ShardId};
use shardwright_engine::cluster::ClusterView;
use shardwright_placement::{DrainProgress, Duties, Effort, HandoverStep};
use shardwright_store::Store;

use super::LifeOf;
use super::auto_load::Loading;
use crate::node::NodeState;
use crate::notices::Trying;
use crate::transport::BoxFuture;

/// How many shards are claimed or released under their locks at the same time: the engine and the
/// store put their commits together.
const TOGETHER: usize = 256;

/// What came of something that was done about shards.
pub(super) enum Done {
    /// They are as they should be, or are looked at again.
    Settled(Vec<ShardId>),
    /// One is empty, and to be released with others.
    Emptied(ShardId),
}

/// What is being done about shards just now.
#[derive(Default)]
struct Work {
    /// The shards that something is done about. Each is in one place at most.
    busy: BTreeSet<ShardId>,
    /// Those of them that are empty.
    emptied: Vec<ShardId>,
    under_way: FuturesUnordered<BoxFuture<'static, Done>>,
    loading: Loading,
}

impl Work {
    fn note(&mut self, done: Done) {
        match done {
            Done::Settled(shards) => shards.iter().for_each(|shard| {
                self.busy.remove(shard);
            }),
            Done::Emptied(shard) => self.emptied.push(shard),
        }
    }

    /// Takes note of all that is done by now, so that it is looked at together.
    fn note_all(&mut self) {
        while let Some(Some(done)) = self.under_way.next().now_or_never() {
            self.note(done);
        }
    }
}

/// How a node leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It does not.
    No,
    /// It hands over what others take.
    Politely,
    /// It releases everything, whoever takes it.
    AtOnce,
}

impl<S: Store, E: Env> LifeOf<S, E> {
    /// Claims, serves and hands over, until the node wants to leave and has nothing left.
    pub(super) async fn care_for_shards(&self) {
        let cluster = &self.agent.cluster;
        let interval = Duration::from_millis(cluster.config().shard_mapping_check_interval_ms);
        let (mut changes, mut wish) = (cluster.changes(), self.agent.wish.clone());
        let mut leaving = Leaving::No;
        let mut impatient_at = Duration::MAX;
        let mut work = Work::default();
        loop {
            let view = changes.borrow_and_update().clone();
            if self.wants_to_leave() {
                if leaving == Leaving::No {
                    self.announce_leaving().await;
                    let patience = self.agent.options.drain_patience;
                    impatient_at = self.env().monotonic().saturating_add(patience);
                }
                leaving = self.how_to_leave(&view, impatient_at);
                self.leaving.send_if_modified(|known| std::mem::replace(known, leaving) != leaving);
            }
            self.learn(&view, &mut work);
            self.begin_work(&view, leaving, &mut work);
            if leaving != Leaving::No && self.is_empty(&view, leaving, &work) {
                self.empty_own_slot().await;
                return;
            }
            tokio::select! {
                biased;
                Some(done) = work.under_way.next() => {
                    work.note(done);
                    work.note_all();
                }
                () = work.loading.next() => {}
                changed = changes.changed() => if changed.is_err() { return },
                changed = wish.changed() => if changed.is_err() { return },
                () = self.env().sleep(interval.min(self.patience_left(leaving, impatient_at))) => {}
            }
        }
    }

    /// Says to the leader that the node wants to go.
    async fn announce_leaving(&self) {
        self.agent.state.send_replace(NodeState::Draining);
        while let Err(error) = self.membership.set_leaving(true).await {
            self.agent.teller.tell(Trying::Leave, error);
            self.env().sleep(Duration::from_millis(200)).await;
        }
    }

    /// How long others may still take for what they are to have.
    fn patience_left(&self, leaving: Leaving, impatient_at: Duration) -> Duration {
        match leaving {
            Leaving::Politely => impatient_at.saturating_sub(self.env().monotonic()),
            Leaving::No | Leaving::AtOnce => Duration::MAX,
        }
    }

    /// As long as others can take the shards, each goes when another is meant to have it.
    fn how_to_leave(&self, view: &ClusterView, impatient_at: Duration) -> Leaving {
        let own = &self.agent.address;
        let others = view.members.iter().any(|one| !one.draining && one.address() != own);
        if others && self.env().monotonic() < impatient_at {
            Leaving::Politely
        } else {
            Leaving::AtOnce
        }
    }

    fn is_empty(&self, view: &ClusterView, leaving: Leaving, work: &Work) -> bool {
        let progress = DrainProgress::of(&view.map, &self.agent.address, &view.members);
        let gone = match leaving {
            Leaving::AtOnce => progress.held == 0,
            Leaving::No | Leaving::Politely => progress.is_done(),
        };
        gone && work.busy.is_empty() && self.host.held().next().is_none()
    }

    /// Brings what the node serves in line with what the cluster says that it has. A claim whose
    /// outcome was not known may turn out here.
    fn learn(&self, view: &ClusterView, work: &mut Work) {
        let mut held = BTreeSet::new();
        for (shard, fence) in view.held_by(self.membership.holder()) {
            held.insert(shard);
            let Ok(slot) = self.host.slot(shard) else { continue };
            let is_news = match slot.held() {
                Some(known) => known != Some(fence),
                None => !work.busy.contains(&shard),
            };
            if is_news {
                // No lock is needed for this: in a shard that the node does not serve, nothing
                // runs; and one that it serves already only gets a higher fence.
                slot.take(Some(fence));
            }
        }
        work.loading.retain(&held);
    }

    /// Begins what is to be done and not being done yet.
    fn begin_work(&self, view: &ClusterView, leaving: Leaving, work: &mut Work) {
        let holder = self.membership.holder();
        let floor = self.agent.cluster.fence_floor();
        let at_once = leaving == Leaving::AtOnce;
        let duties = Duties::of(&view.map, holder, &view.members, floor, at_once);
        // What the node serves and has not is given up as well, only that there is no release.
        let has = |shard| {
            let info = view.map.info(shard);
            info.is_ok_and(|info| info.current == Some(holder.borrowed()))
        };
        let lost = self.host.held().map(|(shard, _)| shard).filter(|shard| !has(*shard));
        let give_up: BTreeSet<ShardId> = duties.give_up.into_iter().chain(lost).collect();
        for shard in give_up {
            if work.busy.insert(shard) {
                work.under_way.push(Box::pin(self.clone().empty(shard)));
            }
        }
        for together in std::mem::take(&mut work.emptied).chunks(TOGETHER) {
            let releasing = self.clone().release(together.to_vec(), at_once);
            work.under_way.push(Box::pin(releasing));
        }
        let claims = if leaving == Leaving::No { duties.claim } else { Vec::new() };
        let claims: Vec<_> = claims.into_iter().filter(|one| work.busy.insert(*one)).collect();
        for together in claims.chunks(TOGETHER) {
            work.under_way.push(Box::pin(self.clone().claim(together.to_vec())));
        }
        self.admit_again(view, at_once, work);
        self.begin_loading(&work.busy, &mut work.loading);
    }

    /// Admits calls again to shards that were to go and stay after all.
    fn admit_again(&self, view: &ClusterView, at_once: bool, work: &mut Work) {
        let Work { busy, under_way, .. } = work;
        for (shard, slot) in self.host.held() {
            let Ok(info) = view.map.info(shard) else { continue };
            if busy.contains(&shard) {
                continue;
            }
            let (holder, effort) = (self.membership.holder(), Effort::default());
            match slot.handover().next_step(info, holder, at_once, effort) {
                HandoverStep::AdmitAgain => slot.set_admitting(true),
                HandoverStep::Keep => {
                    busy.insert(shard);
                    under_way.push(Box::pin(self.clone().empty(shard)));
                }
                _ => {}
            }
        }
    }
}
