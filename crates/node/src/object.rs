//! What users write: types of objects.

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
/// An object appears on a node with the first call to it, and goes when its shard goes. Its calls
/// run one at a time. What it keeps in memory is lost when its node is, or when a call to it panics
/// or is broken off; so what must not be lost is stored before the call is answered, together with
/// the fence, so that a store can refuse the late write of a node that was replaced.
pub trait ObjectType: Send + Sync + 'static {
    /// What an object is while it is on a node.
    type Object: Send + 'static;

    /// Brings an object onto this node.
    fn activate(
        &self,
        activation: &Activation,
    ) -> impl Future<Output = Result<Self::Object, ObjectError>> + Send;

    /// Answers a call.
    ///
    /// The future is dropped, and the object with it, if the node loses its place in the cluster,
    /// or if it takes much longer than the call has time.
    fn handle(
        &self,
        object: &mut Self::Object,
        context: &CallContext,
        method: &str,
        payload: Bytes,
    ) -> impl Future<Output = Result<Bytes, ObjectError>> + Send;

    /// Removes an object from this node.
    ///
    /// It has only so long ([`HostOptions::deactivation_max`]), because calls to its shard are held
    /// meanwhile. Then the future is dropped, and the node reports how many objects were
    /// dropped ([`Node::notices`]). Use it to make the next activation faster, not to store for
    /// the first time what must not be lost.
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

/// Which object is activated, and under which claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Which object.
    pub object: ObjectKey,
    /// Its shard, unless it belongs to a node.
    pub shard: Option<ShardId>,
    /// The fence of the node's claim to that shard. Every later claim has a higher one.
    pub fence: Option<FenceEpoch>,
}

/// Why an object goes from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deactivation {
    /// Its shard is handed over, or its node leaves the cluster. What it stores in time is still
    /// accepted.
    HandedOver,
    /// The node has lost the shard. Another may have it already: there is nothing left to store.
    Lost,
}

/// Why an object does not answer a call, or does not come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// It rejects the call, and why. The caller gets the first thousand letters or so.
    #[error("{0}")]
    Refused(String),
    /// A store refused the fence: another node has the shard, and nothing was done.
    #[error("the fence is stale")]
    StaleFence,
    /// Whether anything was done is not known.
    #[error("it is not known whether anything was done")]
    Unknown,
}

impl ObjectError {
    /// An object that says no.
    #[must_use]
    pub fn refused(why: impl fmt::Display) -> Self {
        Self::Refused(why.to_string())
    }
}

/// An object that gives up because a call of its own failed. It may have had effects before, so
/// its call never counts as not executed.
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

/// The types of objects that a node knows, by name.
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

    /// These and one more. A type that had the name before gives way.
    #[must_use]
    pub fn with(mut self, name: impl Into<Arc<str>>, object_type: impl ObjectType) -> Self {
        self.types.insert(name.into(), Arc::new(Erased(Arc::new(object_type))));
        self
    }

    /// The names of all.
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

/// A type of objects, whichever.
pub(crate) trait AnyType: Send + Sync {
    fn activate<'a>(
        &'a self,
        activation: &'a Activation,
    ) -> BoxFuture<'a, Result<Box<dyn AnyObject>, ObjectError>>;
}

/// An object, of whichever type.
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

struct Awake<T: ObjectType> {
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
            let awake: Box<dyn AnyObject> =
                Box::new(Awake { object_type: Arc::clone(&self.0), object });
            Ok(awake)
        })
    }
}

impl<T: ObjectType> AnyObject for Awake<T> {
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
