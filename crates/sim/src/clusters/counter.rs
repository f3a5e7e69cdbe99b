//! The counter, an object type as a user of the crate would write it, and its events.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use shardwright_api::CallError;
use shardwright_contracts::{FenceEpoch, ShardId};
use shardwright_node::{
    Activation, Call, CallContext, Deactivation, ObjectError, ObjectKey, ObjectType, Transport,
};
use shardwright_placement::{NodeAddress, ObjectId};

use super::fenced_store::{CounterAccess, Denial, FencedStoreLink, Row};

/// The name of the type.
pub(super) const COUNTER: &str = "Counter";

/// Something that happened in an object's code.
#[derive(Clone, Debug)]
pub(super) enum ObjectEvent {
    /// An object starts to handle a call.
    Started(ObjectSite),
    /// An object has handled a client's call.
    Answered { site: ObjectSite, call: u64 },
    /// An object was activated.
    Activated(ObjectSite),
    /// An object was deactivated.
    Deactivated(ObjectSite),
    /// An object is about to be deactivated, because it is deleted or evicted.
    Leaving(Deactivation),
}

/// Where an object is active, and the fence that it got.
#[derive(Clone, Debug)]
pub(super) struct ObjectSite {
    pub(super) process: usize,
    pub(super) shard: Option<ShardId>,
    pub(super) fence: Option<FenceEpoch>,
}

/// Events of objects, in order.
#[derive(Clone, Default)]
pub(super) struct ObjectEvents(Arc<Mutex<Vec<ObjectEvent>>>);

impl ObjectEvents {
    fn note(&self, event: ObjectEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    pub(super) fn take(&self) -> Vec<ObjectEvent> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The counter type in one life of a process.
pub(super) struct CounterType {
    pub(super) link: FencedStoreLink,
    pub(super) object_events: ObjectEvents,
    pub(super) nested: Nested,
}

/// How an object calls another one.
pub(super) enum Nested {
    /// As part of the call that it handles.
    InChain,
    /// Planted bug: as a separate call, if the target is in the same shard.
    Separate(NodeAddress, Arc<dyn Transport>),
}

/// An active counter.
pub(super) struct Counter {
    name: Arc<str>,
    site: ObjectSite,
    /// The stored row. None after a write with unknown outcome.
    row: Option<Row>,
    _guard: ActivationGuard,
}

/// Reports the deactivation when it is dropped.
struct ActivationGuard(ObjectEvents, ObjectSite);

impl Drop for ActivationGuard {
    fn drop(&mut self) {
        self.0.note(ObjectEvent::Deactivated(self.1.clone()));
    }
}

/// A payload: the number of the client's call, or 0, and an argument.
pub(super) fn payload(call: u64, argument: &str) -> Bytes {
    format!("{call} {argument}").into()
}

fn read(payload: &Bytes) -> (u64, String) {
    let text = String::from_utf8_lossy(payload);
    let (call, argument) = text.split_once(' ').unwrap_or((&text, ""));
    (call.parse().unwrap_or_default(), argument.to_owned())
}

impl CounterType {
    async fn access(
        &self,
        counter: &Counter,
        write: Option<(Row, u64)>,
    ) -> Result<Row, ObjectError> {
        let Some(shard) = counter.site.shard else {
            // Objects that are bound to a node are not stored.
            return Ok(Row::default());
        };
        let (fence, name) = (counter.site.fence, Arc::clone(&counter.name));
        let accessed = self.link.access(CounterAccess { shard, fence, counter: name, write }).await;
        accessed.map_err(|denial| match denial {
            Denial::StaleFence => ObjectError::StaleFence,
            Denial::Conflict | Denial::TimedOut => ObjectError::Unknown,
        })
    }

    async fn row(&self, counter: &mut Counter) -> Result<Row, ObjectError> {
        match counter.row {
            Some(row) => Ok(row),
            None => {
                let row = self.access(counter, None).await;
                // A read has no effect, so its failure is no unknown outcome.
                let row = row.map_err(|error| match error {
                    ObjectError::Unknown => {
                        ObjectError::refused("the store of objects does not answer")
                    }
                    other => other,
                })?;
                counter.row = Some(row);
                Ok(row)
            }
        }
    }

    async fn add(&self, counter: &mut Counter) -> Result<Bytes, ObjectError> {
        let row = self.row(counter).await?;
        let value = row.value + 1;
        counter.row = None;
        let row = self.access(counter, Some((row, value))).await?;
        counter.row = Some(row);
        Ok(row.value.to_string().into())
    }
}

impl CounterType {
    async fn call_another(&self, context: &CallContext, id: &str) -> Result<Bytes, CallError> {
        let nested = payload(0, "");
        let own = context.activation().object.id.as_str();
        let shard_of = |id: &str| id.split_once('/').map(|(shard, _)| shard.to_owned());
        let is_neighbour = id != own && shard_of(id).is_some() && shard_of(id) == shard_of(own);
        match (&self.nested, ObjectId::parse(id)) {
            (Nested::Separate(node, transport), Ok(id)) if is_neighbour => {
                let (target, timeout) = (ObjectKey::new(COUNTER, id), context.remaining());
                transport.call(node, Call::new(target, "add", nested, timeout)).await
            }
            _ => context.call(COUNTER, id, "add", nested).await,
        }
    }
}

/// How long the deactivation of an object takes that is deleted or evicted. Calls arrive meanwhile.
const LEAVING_US: u64 = 3_000;

impl ObjectType for CounterType {
    type Object = Counter;

    async fn deactivate(&self, counter: Counter, why: Deactivation) {
        if matches!(why, Deactivation::Deleted | Deactivation::Evicted) {
            self.object_events.note(ObjectEvent::Leaving(why));
            self.link.clock.sleep_us(LEAVING_US).await;
        }
        drop(counter);
    }

    async fn activate(&self, activation: &Activation) -> Result<Counter, ObjectError> {
        let (process, shard) = (self.link.process, activation.shard);
        let site = ObjectSite { process, shard, fence: activation.fence };
        self.object_events.note(ObjectEvent::Activated(site.clone()));
        let guard = ActivationGuard(self.object_events.clone(), site.clone());
        let name = activation.object.id.as_str().into();
        let mut counter = Counter { name, site, row: None, _guard: guard };
        counter.row = Some(self.access(&counter, None).await?);
        Ok(counter)
    }

    async fn handle(
        &self,
        counter: &mut Counter,
        context: &CallContext,
        method: &str,
        payload: Bytes,
    ) -> Result<Bytes, ObjectError> {
        self.object_events.note(ObjectEvent::Started(counter.site.clone()));
        let (call, argument) = read(&payload);
        let answer = match method {
            "add" => self.add(counter).await,
            "get" => self.row(counter).await.map(|row| row.value.to_string().into()),
            "slow_add" => {
                self.link.clock.sleep_us(argument.parse().unwrap_or_default()).await;
                self.add(counter).await
            }
            "relay" => {
                self.link.clock.sleep_us(3_000).await;
                Ok(self.call_another(context, &argument).await?)
            }
            // Panics without printing a message.
            "panic" => std::panic::resume_unwind(Box::new("an object panics")),
            _ => Err(ObjectError::refused("unknown method")),
        }?;
        if call != 0 {
            self.object_events.note(ObjectEvent::Answered { site: counter.site.clone(), call });
        }
        Ok(answer)
    }
}
