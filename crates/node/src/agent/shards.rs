use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use shardwright_cluster::ClusterView;
use shardwright_contracts::{Env, ShardId};
use shardwright_placement::{HandoverAttempts, HandoverStep, ShardDuties};

use super::leaving::Leaving;
use super::work::Work;
use super::{EndReason, SessionAgent};

/// How many shards are claimed or released together: the engine and the store batch their commits.
const BATCH: usize = 256;

impl SessionAgent {
    /// Claims, serves and hands over shards, until a leaving node has none left.
    pub(super) async fn manage_shards(&self) -> EndReason {
        let cluster = &self.agent.cluster;
        let interval = Duration::from_millis(cluster.config().shard_mapping_check_interval_ms);
        let (mut changes, mut desired) = (cluster.changes(), self.agent.desired.clone());
        let mut leaving = Leaving::No;
        let mut drain_deadline = Duration::MAX;
        let mut work = Work::default();
        loop {
            let view = changes.borrow_and_update().clone();
            if self.wants_to_leave() {
                if leaving == Leaving::No {
                    drain_deadline = self.begin_leaving(&mut work);
                }
                leaving = self.how_to_leave(&view, drain_deadline);
                self.leaving.send_if_modified(|known| std::mem::replace(known, leaving) != leaving);
            }
            self.learn(&view, &mut work);
            self.begin_work(&view, leaving, &mut work);
            if let Some(end) = self.may_go(&view, leaving, &work) {
                // Shards that are not released wait for the end of the session.
                if matches!(end, EndReason::HandedOver) {
                    self.empty_own_slot().await;
                }
                return end;
            }
            tokio::select! {
                biased;
                () = work.next() => {}
                changed = changes.changed() => if changed.is_err() { return EndReason::Dropped },
                changed = desired.changed() => if changed.is_err() { return EndReason::Dropped },
                () = self.env().sleep(interval.min(self.time_left(leaving, drain_deadline))) => {}
            }
        }
    }

    /// Updates the served shards to the cluster's state. A claim with unknown outcome may be
    /// settled here.
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
                // This needs no lock: no call runs in a shard that the node does not serve, and a
                // served shard only gets a higher fence.
                slot.take(Some(fence));
            }
        }
        work.loading.retain(&held);
    }

    /// Starts the work that is due and not running.
    fn begin_work(&self, view: &ClusterView, leaving: Leaving, work: &mut Work) {
        let holder = self.membership.holder();
        let floor = self.agent.cluster.fence_floor();
        let at_once = leaving.is_at_once();
        let duties = ShardDuties::of(&view.map, holder, &view.members, floor, at_once);
        // Lost shards are emptied as well, without a release.
        let has = |shard| {
            let info = view.map.info(shard);
            info.is_ok_and(|info| info.current == Some(holder.borrowed()))
        };
        let lost = self.host.held().map(|(shard, _)| shard).filter(|shard| !has(*shard));
        let give_up: BTreeSet<ShardId> = duties.give_up.into_iter().chain(lost).collect();
        work.retain(&give_up);
        // After its timeout, a node does not repeat a release that failed, unless it has to wait
        // anyway.
        let is_over = leaving == Leaving::TimedOut && work.is_all_stuck(&give_up);
        for shard in give_up {
            let is_left = is_over && work.is_unreleased(shard) && has(shard);
            if !is_left && work.busy.insert(shard) {
                self.begin_emptying(shard, work);
            }
        }
        for together in std::mem::take(&mut work.emptied).chunks(BATCH) {
            work.begin(self.clone().release(together.to_vec(), at_once));
        }
        let claims = if leaving == Leaving::No { duties.claim } else { Vec::new() };
        let claims: Vec<_> = claims.into_iter().filter(|one| work.busy.insert(*one)).collect();
        for together in claims.chunks(BATCH) {
            work.begin(self.clone().claim(together.to_vec()));
        }
        self.admit_again(view, at_once, work);
        self.begin_loading(&mut work.loading);
    }

    fn begin_emptying(&self, shard: ShardId, work: &mut Work) {
        let emptying = self.clone().empty(shard, work.resume(shard));
        work.begin(stream::once(emptying).boxed());
    }

    /// Admits calls again to shards that were to move and now stay.
    fn admit_again(&self, view: &ClusterView, at_once: bool, work: &mut Work) {
        for (shard, slot) in self.host.held() {
            let Ok(info) = view.map.info(shard) else { continue };
            if work.busy.contains(&shard) {
                continue;
            }
            let (holder, attempts) = (self.membership.holder(), HandoverAttempts::default());
            match slot.handover().next_step(info, holder, at_once, attempts) {
                HandoverStep::AdmitAgain => slot.set_admitting(true),
                HandoverStep::Keep => {
                    work.busy.insert(shard);
                    self.begin_emptying(shard, work);
                }
                _ => {}
            }
        }
    }
}
