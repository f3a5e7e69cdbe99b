use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{BoxStream, SelectAll};
use futures_util::{FutureExt, StreamExt, stream};
use shardwright_contracts::{Env, ShardId};

use super::auto_load::Loading;
use super::handover::Attempts;

/// Result of work on a shard.
pub(super) enum Done {
    /// It is as it should be, or is looked at again.
    Settled(ShardId),
    /// It is empty, and to be released with others.
    Emptied(ShardId, Attempts),
    /// The store did not let the node release it.
    NotReleased(ShardId, Attempts),
    /// The others know that the node leaves.
    Announced,
}

/// What is being done about shards just now.
#[derive(Default)]
pub(super) struct Work {
    /// The shards that something is done about. Each is in one place at most.
    pub(super) busy: BTreeSet<ShardId>,
    /// Those of them that are empty.
    pub(super) emptied: Vec<(ShardId, Attempts)>,
    /// Shards that the store did not let the node release, and that nothing is done about.
    unreleased: BTreeMap<ShardId, Attempts>,
    /// Those that it did not even though the node's time was over.
    in_vain: BTreeSet<ShardId>,
    under_way: SelectAll<BoxStream<'static, Done>>,
    pub(super) loading: Loading,
}

impl Work {
    pub(super) fn begin(&mut self, work: BoxStream<'static, Done>) {
        self.under_way.push(work);
    }

    /// Waits until something is done, and takes note of all that is done by then, so that it is
    /// looked at together; for ever if nothing is being done.
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

    /// Whether nothing is being done about any shard.
    pub(super) fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }

    /// Whether the store did not let the node release a shard.
    pub(super) fn is_unreleased(&self, shard: ShardId) -> bool {
        self.unreleased.contains_key(&shard)
    }

    /// How it has gone so far with a shard that is given away, if that did not just begin.
    pub(super) fn resume(&mut self, shard: ShardId) -> Option<Attempts> {
        self.unreleased.remove(&shard)
    }

    /// Forgets what became of shards that need not go any more.
    pub(super) fn retain(&mut self, give_up: &BTreeSet<ShardId>) {
        self.unreleased.retain(|shard, _| give_up.contains(shard));
        self.in_vain.retain(|shard| give_up.contains(shard));
    }

    /// Whether a node whose time is over has nothing left to wait for but what it tries in vain.
    pub(super) fn is_all_in_vain(&mut self, give_up: &BTreeSet<ShardId>) -> bool {
        self.in_vain.extend(self.unreleased.keys());
        give_up.iter().chain(&self.busy).all(|shard| self.in_vain.contains(shard))
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
