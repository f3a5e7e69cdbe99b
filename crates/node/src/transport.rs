use std::time::Duration;

use bytes::Bytes;
use shardwright_api::CallError;
pub use shardwright_contracts::BoxFuture;
use shardwright_contracts::ShardId;
use shardwright_placement::NodeAddress;

use crate::call::Call;

/// What brings calls to nodes.
pub trait Transport: Send + Sync + 'static {
    /// Sends a call to a node and waits for the answer, for no longer than the call has time.
    ///
    /// An error is what the node answered, or one of the transport's own:
    ///
    /// - [`CallError::Unreachable`] if the node surely did not get the call and will not,
    /// - [`CallError::Unknown`] if it may have.
    ///
    /// A transport sends a call once. It does not look into it, and decides nothing.
    fn call<'a>(
        &'a self,
        node: &'a NodeAddress,
        call: Call,
    ) -> BoxFuture<'a, Result<Bytes, CallError>>;

    /// Asks a node what its shards bear. It is asked only where load is evened out.
    fn loads<'a>(
        &'a self,
        node: &'a NodeAddress,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Vec<ShardLoad>, CallError>>;

    /// Tells who is a member, whenever that has changed: what is kept for others may go.
    fn keep_only(&self, _is_member: &dyn Fn(&NodeAddress) -> bool) {}
}

/// What a shard bears, smoothed: microseconds of work per second, and a few for each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardLoad {
    /// The shard.
    pub shard: ShardId,
    /// How much.
    pub load: u64,
}

/// Whoever answers calls: a node those that reach it, a gate those of its clients.
pub trait CallService: Send + Sync + 'static {
    /// Answers a call within its time.
    ///
    /// Who asked may lose interest and drop the future at any time: a call that runs goes on.
    fn answer(&self, call: Call) -> BoxFuture<'_, Result<Bytes, CallError>>;

    /// What the shards bear that are here.
    fn loads(&self) -> Vec<ShardLoad>;
}
