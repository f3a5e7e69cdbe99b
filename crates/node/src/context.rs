use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::CallError;
use shardwright_contracts::ShardId;
use shardwright_placement::ObjectId;

use crate::call::{Call, Chain, ObjectKey, Origin};
use crate::object::Activation;
use crate::serving::ServingToken;
use crate::transport::BoxFuture;

/// Makes calls for objects.
pub(crate) trait Caller: Send + Sync {
    /// The time on the clock of deadlines.
    fn now(&self) -> Duration;

    /// Whether a shard is moving, or held by a leaving node, by the known state of the cluster.
    fn is_moving(&self, shard: ShardId) -> bool;

    /// Whether a node is about to leave.
    fn is_leaving(&self, node: &str) -> bool;

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Bytes, CallError>>;
}

/// The context of a call, and the way to make nested calls.
pub struct CallContext {
    pub(crate) activation: Activation,
    /// The chain with this call at its end.
    pub(crate) chain: Chain,
    /// Where this call came from. Its nested calls count for the same peer.
    pub(crate) origin: Option<Arc<Origin>>,
    pub(crate) deadline: Duration,
    pub(crate) caller: Arc<dyn Caller>,
    pub(crate) token: ServingToken,
}

impl CallContext {
    /// The object, its shard, and the fence of the node's claim.
    #[must_use]
    pub const fn activation(&self) -> &Activation {
        &self.activation
    }

    /// The calls that wait for this one, and this one.
    #[must_use]
    pub const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The time left for an answer.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_sub(self.caller.now())
    }

    /// Whether the node's session may have ended. Then the object must have no further effects.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.token.is_over()
    }

    /// Waits until the node's session may have ended. Use it for tasks that outlive a call: the
    /// call itself is dropped by then.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        let token = self.token.clone();
        async move { token.over().await }
    }

    /// Calls an object on any node, within the time left.
    pub async fn call(
        &self,
        object_type: impl Into<Arc<str>>,
        id: &str,
        method: impl Into<Arc<str>>,
        payload: impl Into<Bytes>,
    ) -> Result<Bytes, CallError> {
        let id = ObjectId::parse(id).map_err(|error| CallError::InvalidId(error.to_string()))?;
        let target = ObjectKey::new(object_type, id);
        let call = Call::new(target, method, payload, self.remaining());
        let (chain, origin) = (self.chain.clone(), self.origin.clone());
        self.caller.call(Call { chain, origin, ..call }).await
    }

    /// Deletes an object on any node, within the time left.
    pub async fn delete(
        &self,
        object_type: impl Into<Arc<str>>,
        id: &str,
    ) -> Result<(), CallError> {
        let id = ObjectId::parse(id).map_err(|error| CallError::InvalidId(error.to_string()))?;
        let call = Call::delete(ObjectKey::new(object_type, id), self.remaining());
        let (chain, origin) = (self.chain.clone(), self.origin.clone());
        self.caller.call(Call { chain, origin, ..call }).await.map(|_empty| ())
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("activation", &self.activation)
            .field("chain", &self.chain)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
