//! Types of objects, which users implement.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use shardwright_api::{CallError, UnknownWhy, short};
use shardwright_contracts::{FenceEpoch, ShardId};

use crate::call::ObjectKey;
use crate::context::CallContext;
use crate::transport::BoxFuture;

/// A type of objects.
///
/// An object is activated on a node by its first call. It is deactivated when a caller deletes it,
/// when it is evicted, and when the node loses or hands over its shard. Its calls run one at a
/// time. Its memory is lost when the node fails, or when a call to it panics or is cancelled. So
/// store durable state before the call is answered, together with the fence. A store can then
/// refuse the late write of a replaced node.
pub trait ObjectType: Send + Sync + 'static {
    /// The state of an active object.
    type Object: Send + 'static;

    /// Activates an object on this node.
    fn activate(
        &self,
        activation: &Activation,
    ) -> impl Future<Output = Result<Self::Object, ObjectError>> + Send;

    /// Answers a call.
    ///
    /// The future and the object are dropped if the node stops serving, or if the call far exceeds
    /// its timeout.
    fn handle(
        &self,
        object: &mut Self::Object,
        context: &CallContext,
        method: &str,
        payload: Bytes,
    ) -> impl Future<Output = Result<Bytes, ObjectError>> + Send;

    /// Deactivates an object.
    ///
    /// It must end within [`HostOptions::deactivation_max`], because calls to its shard are held
    /// meanwhile. Otherwise the future is dropped, and the node reports the number of dropped
    /// objects ([`Node::notices`]). A deletion has the time of its call instead. Use it to make the
    /// next activation faster, not to store durable state for the first time.
    ///
    /// [`HostOptions::deactivation_max`]: crate::HostOptions::deactivation_max
    /// [`Node::notices`]: crate::Node::notices
    fn deactivate(
        &self,
        object: Self::Object,
        _why: Deactivation,
    ) -> impl Future<Output = ()> + Send {
        drop(object);
        async {}
    }
}

/// The object that is activated, and the claim of its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activation {
    /// The object.
    pub object: ObjectKey,
    /// Its shard, unless it belongs to a node.
    pub shard: Option<ShardId>,
    /// The fence of the node's claim. Every later claim of the shard has a higher one.
    pub fence: Option<FenceEpoch>,
}

/// Why an object is deactivated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deactivation {
    /// Its shard is handed over, or its node leaves the cluster. Writes with its fence are still
    /// accepted.
    HandedOver,
    /// The node has lost the shard. Another node may already serve it, so nothing can be stored any
    /// more.
    Lost,
    /// It was idle for too long, or the node had too many objects. Its next call activates it
    /// again. Writes with its fence are still accepted.
    Evicted,
    /// A caller has deleted it. The caller gets the answer after this deactivation. Writes with its
    /// fence are still accepted, so the type may delete what it has stored.
    Deleted,
}

/// Why an object does not answer a call, or is not activated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// It rejects the call for this reason. The caller gets about the first thousand characters.
    #[error("{0}")]
    Refused(String),
    /// A store refused the fence: another node holds the shard. The call had no effect.
    #[error("the fence is stale")]
    StaleFence,
    /// The outcome is unknown.
    #[error("the outcome is unknown")]
    Unknown,
}

impl ObjectError {
    /// An object that rejects the call.
    #[must_use]
    pub fn refused(why: impl fmt::Display) -> Self {
        Self::Refused(why.to_string())
    }
}

/// An object that fails because a call of its own failed. It may have had effects before, so its
/// call never counts as not executed.
impl From<CallError> for ObjectError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unknown(_) | CallError::Panicked => Self::Unknown,
            other => Self::Refused(format!("a call of the object failed: {other}")),
        }
    }
}

impl ObjectError {
    /// The error for the caller of a call that was handled.
    pub(crate) fn of_call(self, activation: &Activation) -> CallError {
        match self {
            Self::Refused(why) => CallError::Refused(short(why)),
            Self::StaleFence => not_owner(activation),
            Self::Unknown => CallError::Unknown(UnknownWhy::Object),
        }
    }

    /// The error for the caller of a call whose object could not be activated.
    pub(crate) fn of_activation(self, activation: &Activation) -> CallError {
        match self {
            Self::StaleFence => not_owner(activation),
            other @ (Self::Refused(_) | Self::Unknown) => {
                CallError::Activation(short(other.to_string()))
            }
        }
    }
}

fn not_owner(activation: &Activation) -> CallError {
    CallError::NotOwner { shard: activation.shard, fence: activation.fence }
}

/// The types of objects that a node serves, by name.
#[derive(Clone, Default)]
pub struct ObjectTypes {
    types: BTreeMap<Arc<str>, Arc<dyn AnyType>>,
}

impl ObjectTypes {
    /// No types.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a type. It replaces a type of the same name.
    #[must_use]
    pub fn with(mut self, name: impl Into<Arc<str>>, object_type: impl ObjectType) -> Self {
        self.types.insert(name.into(), Arc::new(Erased(Arc::new(object_type))));
        self
    }

    /// The names of all types.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(AsRef::as_ref)
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Arc<dyn AnyType>, CallError> {
        self.types.get(name).ok_or(CallError::UnknownType)
    }
}

impl fmt::Debug for ObjectTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.types.keys()).finish()
    }
}

/// An object type without its type parameter.
pub(crate) trait AnyType: Send + Sync {
    fn activate<'a>(
        &'a self,
        activation: &'a Activation,
    ) -> BoxFuture<'a, Result<Box<dyn AnyObject>, ObjectError>>;
}

/// An object without its type parameter.
pub(crate) trait AnyObject: Send {
    fn handle<'a>(
        &'a mut self,
        context: &'a CallContext,
        method: &'a str,
        payload: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, ObjectError>>;

    fn deactivate(self: Box<Self>, why: Deactivation) -> BoxFuture<'static, ()>;
}

struct Erased<T>(Arc<T>);

struct ActiveObject<T: ObjectType> {
    object_type: Arc<T>,
    object: T::Object,
}

impl<T: ObjectType> AnyType for Erased<T> {
    fn activate<'a>(
        &'a self,
        activation: &'a Activation,
    ) -> BoxFuture<'a, Result<Box<dyn AnyObject>, ObjectError>> {
        Box::pin(async move {
            let object = self.0.activate(activation).await?;
            let active: Box<dyn AnyObject> =
                Box::new(ActiveObject { object_type: Arc::clone(&self.0), object });
            Ok(active)
        })
    }
}

impl<T: ObjectType> AnyObject for ActiveObject<T> {
    fn handle<'a>(
        &'a mut self,
        context: &'a CallContext,
        method: &'a str,
        payload: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, ObjectError>> {
        Box::pin(self.object_type.handle(&mut self.object, context, method, payload))
    }

    fn deactivate(self: Box<Self>, why: Deactivation) -> BoxFuture<'static, ()> {
        let Self { object_type, object } = *self;
        Box::pin(async move { object_type.deactivate(object, why).await })
    }
}
