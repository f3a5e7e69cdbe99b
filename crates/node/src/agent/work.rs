//! The claims, handovers and releases that are in progress on a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{BoxStream, SelectAll};
use futures_util::{FutureExt, StreamExt, stream};
use shardwright_contracts::{Env, ShardId};

use super::auto_load::Loading;
use super::handover::Attempts;

/// The result of work on a shard.
pub(super) enum Done {
    /// It is in its final state, or is checked again.
    Settled(ShardId),
    /// It is empty, and is released together with others.
    Emptied(ShardId, Attempts),
    /// The store did not let the node release it.
    NotReleased(ShardId, Attempts),
    /// The announcement of leaving is stored.
    Announced,
}

/// The running work on shards.
#[derive(Default)]
pub(super) struct Work {
    /// The shards with running work. Each is in one work item at most.
    pub(super) busy: BTreeSet<ShardId>,
    /// Those of them that are empty.
    pub(super) emptied: Vec<(ShardId, Attempts)>,
    /// Shards without running work that the store did not let the node release.
    unreleased: BTreeMap<ShardId, Attempts>,
    /// Those that it did not let the node release even after the timeout.
    stuck: BTreeSet<ShardId>,
    under_way: SelectAll<BoxStream<'static, Done>>,
    pub(super) loading: Loading,
}

impl Work {
    pub(super) fn begin(&mut self, work: BoxStream<'static, Done>) {
        self.under_way.push(work);
    }

    /// Waits until some work is done, and records everything that is done by then. Waits for ever
    /// if nothing runs.
    pub(super) async fn next(&mut self) {
        let done = tokio::select! {
            biased;
            Some(done) = self.under_way.next() => done,
            () = self.loading.next() => return,
        };
        self.note(done);
        while let Some(Some(done)) = self.under_way.next().now_or_never() {
            self.note(done);
        }
    }

    fn note(&mut self, done: Done) {
        match done {
            Done::Settled(shard) => {
                self.busy.remove(&shard);
            }
            Done::Emptied(shard, attempts) => self.emptied.push((shard, attempts)),
            Done::NotReleased(shard, attempts) => {
                self.busy.remove(&shard);
                self.unreleased.insert(shard, attempts);
            }
            Done::Announced => {}
        }
    }

    /// Whether no work runs.
    pub(super) fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }

    /// Whether the store did not let the node release a shard.
    pub(super) fn is_unreleased(&self, shard: ShardId) -> bool {
        self.unreleased.contains_key(&shard)
    }

    /// The earlier attempts to release a shard, if any.
    pub(super) fn resume(&mut self, shard: ShardId) -> Option<Attempts> {
        self.unreleased.remove(&shard)
    }

    /// Drops the results of shards that no longer have to go.
    pub(super) fn retain(&mut self, give_up: &BTreeSet<ShardId>) {
        self.unreleased.retain(|shard, _| give_up.contains(shard));
        self.stuck.retain(|shard| give_up.contains(shard));
    }

    /// Whether a node after its timeout waits only for releases that keep failing.
    pub(super) fn is_all_stuck(&mut self, give_up: &BTreeSet<ShardId>) -> bool {
        self.stuck.extend(self.unreleased.keys());
        give_up.iter().chain(&self.busy).all(|shard| self.stuck.contains(shard))
    }
}

/// Delivers some results at once, and others after a pause.
pub(super) fn deliver(
    env: &Arc<dyn Env>,
    at_once: Vec<Done>,
    pause: Duration,
    later: Vec<Done>,
) -> BoxStream<'static, Done> {
    let env = Arc::clone(env);
    let later = async move {
        if !later.is_empty() {
            env.sleep(pause).await;
        }
        stream::iter(later)
    };
    stream::iter(at_once).chain(later.flatten_stream()).boxed()
}
