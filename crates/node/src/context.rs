use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::CallError;
use shardwright_contracts::ShardId;
use shardwright_placement::ObjectId;

use crate::call::Call;
use crate::call::{Chain, ObjectKey};
use crate::object::Activation;
use crate::serving::ServingToken;
use crate::transport::BoxFuture;

/// Makes calls for objects.
pub(crate) trait Caller: Send + Sync {
    /// The time on the clock of deadlines.
    fn now(&self) -> Duration;

    /// Whether a shard is on its way from one node to another, or with a node that is about to
    /// leave, as far as is known here.
    fn is_moving(&self, shard: ShardId) -> bool;

    /// Whether a node is about to leave.
    fn is_leaving(&self, node: &str) -> bool;

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Bytes, CallError>>;
}

/// What an object knows of the call that it answers, and how it makes calls of its own.
pub struct CallContext {
    pub(crate) activation: Activation,
    /// With this very call at its end.
    pub(crate) chain: Chain,
    pub(crate) deadline: Duration,
    pub(crate) caller: Arc<dyn Caller>,
    pub(crate) token: ServingToken,
}

impl CallContext {
    /// The object, its shard, and the fence by which the node has that.
    #[must_use]
    pub const fn activation(&self) -> &Activation {
        &self.activation
    }

    /// The calls that this one is part of, and this one.
    #[must_use]
    pub const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// How much time there is left for an answer.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_sub(self.caller.now())
    }

    /// Whether the node may have lost its place in the cluster, so that nothing may be done any
    /// more.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.token.is_over()
    }

    /// Waits until that is so. It is for what an object leaves running beside its calls; the call
    /// itself is dropped by then.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        let token = self.token.clone();
        async move { token.over().await }
    }

    /// Calls another object, wherever it is, in the time that is left.
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
        self.caller.call(Call { chain: self.chain.clone(), ..call }).await
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
