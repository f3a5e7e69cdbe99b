//! Bugs planted around the objects of a node and around calls to them.

use std::time::Duration;

use bytes::Bytes;
use shardwright_api::CallError;
use shardwright_cluster::keys::{ClusterKey, ClusterKeys};
use shardwright_cluster::records::{ShardClaimRecord, TargetChunkRecord};
use shardwright_contracts::ShardId;
use shardwright_engine::codec::Record;
use shardwright_node::{
    Activation, BoxFuture, Call, CallContext, Deactivation, ObjectError, ObjectType, ShardLoad,
    Transport,
};
use shardwright_placement::{Claim, NodeAddress, TargetChunks};
use shardwright_store::{Commit, Expect, Store, Versioned};

use super::clusters::ClusterBug;
use crate::runtime::executor::{Clockwork, TaskOwner};
use crate::runtime::link::Link;

/// An object type with a bug around it, if one is planted.
pub(crate) struct DoctoredType<T> {
    pub(crate) inner: T,
    pub(crate) bug: Option<ClusterBug>,
    pub(crate) node: EarlyRelease,
}

/// An object, and a second one of the same name that only a bug creates.
pub(crate) struct DoctoredObject<O> {
    first: O,
    second: Option<O>,
    activation: Activation,
    calls: u64,
}

impl<T: ObjectType> DoctoredType<T> {
    fn has(&self, bug: ClusterBug) -> bool {
        self.bug == Some(bug)
    }
}

impl<T: ObjectType> ObjectType for DoctoredType<T> {
    type Object = DoctoredObject<T::Object>;

    async fn activate(&self, activation: &Activation) -> Result<Self::Object, ObjectError> {
        let mut activation = activation.clone();
        if self.has(ClusterBug::FenceNotPassed) {
            activation.fence = None;
        }
        let first = self.inner.activate(&activation).await?;
        Ok(DoctoredObject { first, second: None, activation, calls: 0 })
    }

    async fn handle(
        &self,
        object: &mut Self::Object,
        context: &CallContext,
        method: &str,
        payload: Bytes,
    ) -> Result<Bytes, ObjectError> {
        object.calls += 1;
        if self.has(ClusterBug::SecondPlace) && object.calls.is_multiple_of(2) {
            if object.second.is_none() {
                object.second = Some(self.inner.activate(&object.activation).await?);
            }
            if let Some(second) = &mut object.second {
                return self.inner.handle(second, context, method, payload).await;
            }
        }
        if let Some(shard) = object.activation.shard
            && self.has(ClusterBug::CallsNotAwaited)
            && self.node.is_to_go(shard).await
        {
            self.node.release(shard).await;
        }
        self.inner.handle(&mut object.first, context, method, payload).await
    }

    async fn deactivate(&self, object: Self::Object, why: Deactivation) {
        let shard = object.activation.shard;
        match (why, shard) {
            (Deactivation::HandedOver, Some(shard))
                if self.has(ClusterBug::ReleasedBeforeEvicted) =>
            {
                self.node.release(shard).await;
            }
            (Deactivation::Lost, _) if self.has(ClusterBug::LossPanics) => self.node.panic(),
            _ => {}
        }
        self.inner.deactivate(object.first, why).await;
        if let Some(second) = object.second {
            self.inner.deactivate(second, why).await;
        }
    }
}

/// Releases a node's shards too early, past the product.
pub(crate) struct EarlyRelease {
    pub(crate) link: Link,
    pub(crate) keys: ClusterKeys,
    pub(crate) chunks: TargetChunks,
    pub(crate) address: NodeAddress,
    pub(crate) clock: Clockwork,
    pub(crate) process: usize,
}

impl EarlyRelease {
    async fn read(&self, key: &ClusterKey) -> Option<Versioned> {
        let loaded = self.link.load(&[self.keys.key(key)]).await;
        loaded.ok()?.values.into_iter().next().flatten()
    }

    /// Whether the target of a shard is another node.
    async fn is_to_go(&self, shard: ShardId) -> bool {
        let Ok(chunk) = self.chunks.chunk_of(shard) else { return false };
        let Some(found) = self.read(&ClusterKey::TargetChunk(chunk)).await else { return false };
        let Ok(TargetChunkRecord { targets, .. }) = TargetChunkRecord::decode(&found.value) else {
            return false;
        };
        let mut shards = self.chunks.shards(chunk).zip(targets);
        let target = shards.find(|(id, _)| u64::from(*id) == shard.as_raw());
        target.is_some_and(|(_, target)| target.node.as_ref() != Some(&self.address))
    }

    /// Releases a shard if this node holds it.
    async fn release(&self, shard: ShardId) {
        let key = ClusterKey::Shard(shard);
        let Some(found) = self.read(&key).await else { return };
        let Ok(ShardClaimRecord { claim }) = ShardClaimRecord::decode(&found.value) else { return };
        if claim.holder.as_ref().is_none_or(|holder| holder.address != self.address) {
            return;
        }
        let value = ShardClaimRecord { claim: Claim { holder: None, ..claim } }.encode();
        let stored = self.keys.key(&key);
        let commit = Commit::builder()
            .expect(stored.clone(), Expect::At(found.revision))
            .put(stored, value)
            .build();
        if let Ok(commit) = commit {
            // The commit may fail. Then the shard stays held.
            let _outcome = self.link.commit(commit).await;
        }
    }

    fn panic(&self) {
        self.clock.spawn(TaskOwner::Process(self.process), async {
            // Panics without printing a message.
            std::panic::resume_unwind(Box::new("a shard was lost"));
        });
    }
}

/// A transport that retries calls with unknown outcome until their deadline.
pub(crate) struct RetryingTransport<T> {
    pub(crate) inner: T,
    pub(crate) clock: Clockwork,
}

impl<T: Transport> Transport for RetryingTransport<T> {
    fn call<'a>(
        &'a self,
        node: &'a NodeAddress,
        call: Call,
    ) -> BoxFuture<'a, Result<Bytes, CallError>> {
        Box::pin(async move {
            let since_us = self.clock.now_us();
            let answer = self.inner.call(node, call.clone()).await;
            let passed = Duration::from_micros(self.clock.now_us() - since_us);
            let timeout = call.timeout.saturating_sub(passed);
            match answer {
                Err(CallError::Unknown(_)) if !timeout.is_zero() => {
                    self.inner.call(node, Call { timeout, ..call }).await
                }
                answer => answer,
            }
        })
    }

    fn loads<'a>(
        &'a self,
        node: &'a NodeAddress,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Vec<ShardLoad>, CallError>> {
        self.inner.loads(node, timeout)
    }

    fn keep_only(&self, is_member: &dyn Fn(&NodeAddress) -> bool) {
        self.inner.keep_only(is_member);
    }
}
