//! Objects that count, as a user of the crate would write them, and what is seen of them.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use shardwright_api::CallError;
use shardwright_contracts::{FenceEpoch, ShardId};
use shardwright_node::{
    Activation, Call, CallContext, ObjectError, ObjectKey, ObjectType, Transport,
};
use shardwright_placement::{NodeAddress, ObjectId};

use super::fenced_store::{CounterAccess, Denial, FencedStoreLine, Row};

/// The name by which the type is known.
pub(super) const COUNTER: &str = "Counter";

/// Something seen in an object's code.
#[derive(Clone, Debug)]
pub(super) enum Sight {
    /// An object begins to answer a call.
    Begins(CounterState),
    /// An object has answered a call of a client.
    Ends { place: CounterState, call: u64 },
    /// An object came onto a node.
    Wakes(CounterState),
    /// An object went from a node.
    Goes(CounterState),
}

/// Where something is seen.
#[derive(Clone, Debug)]
pub(super) struct CounterState {
    pub(super) process: usize,
    pub(super) shard: Option<ShardId>,
    pub(super) fence: Option<FenceEpoch>,
}

/// What is seen, in order.
#[derive(Clone, Default)]
pub(super) struct Sights(Arc<Mutex<Vec<Sight>>>);

impl Sights {
    fn note(&self, sight: Sight) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sight);
    }

    pub(super) fn take(&self) -> Vec<Sight> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The type of counters, as one life of a process has it.
pub(super) struct CounterType {
    pub(super) line: FencedStoreLine,
    pub(super) sights: Sights,
    pub(super) nested: Nested,
}

/// How an object calls another one.
pub(super) enum Nested {
    /// As part of the call that it answers.
    InChain,
    /// Planted: within its shard, as a call of its own.
    Apart(NodeAddress, Arc<dyn Transport>),
}

/// A counter that is awake.
pub(super) struct Counter {
    name: Arc<str>,
    place: CounterState,
    /// What is stored; not known after a write whose outcome is not.
    row: Option<Row>,
    _awake: Awake,
}

/// Tells when an object goes, however it does.
struct Awake(Sights, CounterState);

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.note(Sight::Goes(self.1.clone()));
    }
}

/// A payload: which call of a client it is part of, and what else is said.
pub(super) fn payload(call: u64, argument: &str) -> Bytes {
    format!("{call} {argument}").into()
}

fn read(payload: &Bytes) -> (u64, String) {
    let text = String::from_utf8_lossy(payload);
    let (call, argument) = text.split_once(' ').unwrap_or((&text, ""));
    (call.parse().unwrap_or_default(), argument.to_owned())
}

impl CounterType {
    async fn ask(&self, counter: &Counter, write: Option<(Row, u64)>) -> Result<Row, ObjectError> {
        let Some(shard) = counter.place.shard else {
            // What belongs to a node is kept nowhere.
            return Ok(Row::default());
        };
        let (fence, name) = (counter.place.fence, Arc::clone(&counter.name));
        let asked = self.line.ask(CounterAccess { shard, fence, counter: name, write }).await;
        asked.map_err(|denial| match denial {
            Denial::StaleFence => ObjectError::StaleFence,
            Denial::Overtaken | Denial::Silence => ObjectError::Unknown,
        })
    }

    async fn row(&self, counter: &mut Counter) -> Result<Row, ObjectError> {
        match counter.row {
            Some(row) => Ok(row),
            None => {
                let row = self.ask(counter, None).await;
                // Nothing was done by reading.
                let row = row.map_err(|error| match error {
                    ObjectError::Unknown => ObjectError::refused("the store does not answer"),
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
        let row = self.ask(counter, Some((row, value))).await?;
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
            (Nested::Apart(node, transport), Ok(id)) if is_neighbour => {
                let (target, timeout) = (ObjectKey::new(COUNTER, id), context.remaining());
                transport.call(node, Call::new(target, "add", nested, timeout)).await
            }
            _ => context.call(COUNTER, id, "add", nested).await,
        }
    }
}

impl ObjectType for CounterType {
    type Object = Counter;

    async fn activate(&self, activation: &Activation) -> Result<Counter, ObjectError> {
        let (process, shard) = (self.line.process, activation.shard);
        let place = CounterState { process, shard, fence: activation.fence };
        self.sights.note(Sight::Wakes(place.clone()));
        let awake = Awake(self.sights.clone(), place.clone());
        let name = activation.object.id.as_str().into();
        let mut counter = Counter { name, place, row: None, _awake: awake };
        counter.row = Some(self.ask(&counter, None).await?);
        Ok(counter)
    }

    async fn handle(
        &self,
        counter: &mut Counter,
        context: &CallContext,
        method: &str,
        payload: Bytes,
    ) -> Result<Bytes, ObjectError> {
        self.sights.note(Sight::Begins(counter.place.clone()));
        let (call, argument) = read(&payload);
        let answer = match method {
            "add" => self.add(counter).await,
            "get" => self.row(counter).await.map(|row| row.value.to_string().into()),
            "dawdle" => {
                self.line.clock.sleep_us(argument.parse().unwrap_or_default()).await;
                self.add(counter).await
            }
            "relay" => {
                self.line.clock.sleep_us(3_000).await;
                Ok(self.call_another(context, &argument).await?)
            }
            // Without the message that a panic prints.
            "panic" => std::panic::resume_unwind(Box::new("an object panics")),
            _ => Err(ObjectError::refused("there is no such method")),
        }?;
        if call != 0 {
            self.sights.note(Sight::Ends { place: counter.place.clone(), call });
        }
        Ok(answer)
    }
}
