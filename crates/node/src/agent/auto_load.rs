//! Objects that every shard has, loaded without a call.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use shardwright_contracts::{Env, ShardId};
use shardwright_placement::{ObjectId, ObjectIdError, ObjectLocation};

use super::SessionAgent;
use crate::call::ObjectKey;
use crate::host::Slot;
use crate::notices::Activity;
use crate::options::AutoLoad;
use crate::transport::BoxFuture;

/// The shards whose objects are loaded automatically.
#[derive(Default)]
pub(super) struct Loading {
    /// The shards that were checked since the last full check.
    seen: BTreeSet<ShardId>,
    seen_since: Duration,
    /// The shards whose objects are being loaded.
    busy: BTreeSet<ShardId>,
    under_way: FuturesUnordered<BoxFuture<'static, ShardId>>,
}

impl Loading {
    /// Waits until a load has ended, or for ever if none runs.
    pub(super) async fn next(&mut self) {
        let Some(shard) = self.under_way.next().await else {
            return std::future::pending().await;
        };
        self.busy.remove(&shard);
        // All loads that have ended are handled together.
        while let Some(Some(shard)) = self.under_way.next().now_or_never() {
            self.busy.remove(&shard);
        }
    }

    /// Drops the shards that the node no longer holds.
    pub(super) fn retain(&mut self, held: &BTreeSet<ShardId>) {
        self.seen.retain(|shard| held.contains(shard));
    }
}

impl AutoLoad {
    /// The object of a shard.
    pub(crate) fn key(&self, shard: ShardId) -> Result<ObjectKey, ObjectIdError> {
        let id = ObjectId::parse(&format!("shard#{}/{}", shard.as_raw(), self.name))?;
        Ok(ObjectKey::new(self.object_type.clone(), id))
    }

    /// Whether an object is the one of its shard.
    pub(crate) fn loads(&self, key: &ObjectKey) -> bool {
        let is_named =
            || key.id.as_str().split_once('/').is_some_and(|(_, name)| name == &*self.name);
        matches!(key.id.location(), ObjectLocation::Shard(_))
            && self.object_type == key.object_type
            && is_named()
    }
}

impl SessionAgent {
    /// Loads missing objects of the served shards. An object may be dropped again, because its code
    /// panicked or the shard could not be released. So every shard is checked again periodically.
    pub(super) fn begin_loading(&self, loading: &mut Loading) {
        if self.agent.options.auto_load.is_empty() {
            return;
        }
        let interval = self.agent.cluster.config().shard_mapping_check_interval_ms;
        let now = self.env().monotonic();
        if now.saturating_sub(loading.seen_since) >= Duration::from_millis(interval) {
            loading.seen.clear();
            loading.seen_since = now;
        }
        for (shard, slot) in self.host.held() {
            let is_served = !slot.is_draining() && !loading.busy.contains(&shard);
            if is_served && loading.seen.insert(shard) && self.lacks(shard, slot) {
                loading.busy.insert(shard);
                loading.under_way.push(Box::pin(self.clone().load(shard)));
            }
        }
    }

    fn lacks(&self, shard: ShardId, slot: &Slot) -> bool {
        let mut keys = self.agent.options.auto_load.iter().map(|one| one.key(shard));
        keys.any(|key| key.is_ok_and(|key| !slot.has(&key)))
    }

    /// Loads the objects of a shard. A failure is retried later. It is not reported if the shard is
    /// moving or gone, because then another node loads them.
    async fn load(self, shard: ShardId) -> ShardId {
        let options = &self.agent.options;
        let goes = || self.host.slot(shard).is_ok_and(|slot| slot.is_draining());
        // Invalid names were refused when the node started.
        for key in options.auto_load.iter().filter_map(|one| one.key(shard).ok()) {
            if goes() {
                break;
            }
            match self.host.load(key, options.host.activation_max).await {
                Err(error) if !error.is_elsewhere() && !goes() => {
                    self.agent.notice_log.record(Activity::Load, error);
                }
                Ok(()) | Err(_) => {}
            }
        }
        shard
    }
}
