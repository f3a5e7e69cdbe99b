use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::limits::{MAX_CHAIN_LENGTH, MAX_NAME_SIZE, MAX_PAYLOAD_SIZE};
use shardwright_api::{CallError, LimitOption};
use shardwright_contracts::FenceEpoch;
use shardwright_placement::ObjectId;

use crate::quota::{Charge, Peer, Quota};

/// The type and id of an object. Objects of two types may have the same id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The name of its type.
    pub object_type: Arc<str>,
    /// Its id.
    pub id: ObjectId,
}

impl ObjectKey {
    /// Names an object.
    #[must_use]
    pub fn new(object_type: impl Into<Arc<str>>, id: ObjectId) -> Self {
        Self { object_type: object_type.into(), id }
    }
}

/// The calls that wait for a call, the outermost first.
///
/// A call to an object in the chain would never end, because that object waits. And the shards of
/// the chain's objects cannot be handed over before the call has ended, so it must be admitted
/// there.
#[derive(Clone, Default)]
pub struct Chain(Arc<[ObjectKey]>);

impl Chain {
    /// A chain of calls.
    #[must_use]
    pub fn new(links: impl IntoIterator<Item = ObjectKey>) -> Self {
        Self(links.into_iter().collect())
    }

    /// The chain with a call to `object` at its end.
    #[must_use]
    pub fn with(&self, object: ObjectKey) -> Self {
        Self(self.0.iter().cloned().chain([object]).collect())
    }

    /// The number of waiting calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no call waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The objects whose calls wait.
    pub fn links(&self) -> impl ExactSizeIterator<Item = &ObjectKey> {
        self.0.iter()
    }

    /// Whether a call to `object` waits.
    #[must_use]
    pub fn holds(&self, object: &ObjectKey) -> bool {
        self.0.contains(object)
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

/// What a call does with its object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallKind {
    /// Runs a method.
    #[default]
    Invoke,
    /// Deactivates the object, with [`Deactivation::Deleted`](crate::Deactivation::Deleted). An
    /// inactive object is activated first, so that its type always learns of the deletion.
    Delete,
}

/// Where a call came from, and the bytes that it occupies there.
///
/// The call keeps it to its end. So the bytes count until then, also after the peer has
/// disconnected.
pub struct Origin {
    peer: Peer,
    counted: Mutex<Counted>,
}

struct Counted {
    /// The bytes of the request's head.
    head: u64,
    /// The head, and the request's body or the answer.
    charge: Charge,
}

impl Origin {
    pub(crate) fn new(peer: Peer, bytes: &Arc<Quota>) -> Self {
        Self { peer, counted: Mutex::new(Counted { head: 0, charge: bytes.nothing(peer) }) }
    }

    /// The peer that sent the call.
    #[must_use]
    pub const fn peer(&self) -> Peer {
        self.peer
    }

    /// Counts the bytes of the request's head for the share of its connection. They count until
    /// the call ends.
    pub(crate) fn count_head(&self, bytes: u64) -> Result<(), CallError> {
        self.count_request(bytes)?;
        self.lock().head = bytes;
        Ok(())
    }

    /// Counts the bytes of the request's body for the share of its connection.
    pub(crate) fn count_request(&self, bytes: u64) -> Result<(), CallError> {
        self.count(self.peer, bytes)
    }

    /// Counts the bytes of the answer instead, for the share of the whole peer: the call was
    /// executed, so its answer should not fail before that share is used up.
    pub(crate) fn count_answer(&self, bytes: u64) -> Result<(), CallError> {
        self.count(Peer { connection: None, ..self.peer }, bytes)
    }

    fn count(&self, peer: Peer, bytes: u64) -> Result<(), CallError> {
        let mut counted = self.lock();
        let all = counted.head.saturating_add(bytes);
        let resized = counted.charge.resize(Some(peer), all);
        resized.map_err(|over| {
            let (all, peer) = (LimitOption::BytesInFlight, LimitOption::BytesPerAddress);
            CallError::Overloaded(over.of(all, peer))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Origin").field(&self.peer).finish()
    }
}

/// A call to an object.
#[derive(Clone)]
pub struct Call {
    /// The object.
    pub target: ObjectKey,
    /// What it does.
    pub kind: CallKind,
    /// The method.
    pub method: Arc<str>,
    /// The payload.
    pub payload: Bytes,
    /// The calls that wait for this one.
    pub chain: Chain,
    /// The fence of the claim in the caller's routing table. A node with an older fence has lost
    /// the shard without knowing it.
    pub fence: Option<FenceEpoch>,
    /// The timeout, at most [`MAX_TIMEOUT`](shardwright_api::limits::MAX_TIMEOUT).
    pub timeout: Duration,
    /// Where it came from. `None` for a call that this process makes by itself.
    pub origin: Option<Arc<Origin>>,
}

impl Call {
    /// A call with an empty chain.
    #[must_use]
    pub fn new(
        target: ObjectKey,
        method: impl Into<Arc<str>>,
        payload: impl Into<Bytes>,
        timeout: Duration,
    ) -> Self {
        Self {
            target,
            kind: CallKind::Invoke,
            method: method.into(),
            payload: payload.into(),
            chain: Chain::default(),
            fence: None,
            timeout,
            origin: None,
        }
    }

    /// A call that deletes an object, with an empty chain.
    #[must_use]
    pub fn delete(target: ObjectKey, timeout: Duration) -> Self {
        Self { kind: CallKind::Delete, ..Self::new(target, "", Bytes::new(), timeout) }
    }

    /// Checks the limits and the chain of a call.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        for (size, limit) in [
            (self.payload.len(), MAX_PAYLOAD_SIZE),
            (self.method.len(), MAX_NAME_SIZE),
            (self.target.object_type.len(), MAX_NAME_SIZE),
        ] {
            if size > limit {
                return Err(CallError::TooLarge { size: size as u64, limit: limit as u64 });
            }
        }
        if self.chain.holds(&self.target) {
            return Err(CallError::Cycle);
        }
        if self.chain.len() >= MAX_CHAIN_LENGTH {
            return Err(CallError::ChainTooLong { limit: MAX_CHAIN_LENGTH as u64 });
        }
        Ok(())
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("target", &self.target)
            .field("kind", &self.kind)
            .field("method", &self.method)
            .field("payload_size", &self.payload.len())
            .field("chain", &self.chain)
            .field("fence", &self.fence)
            .field("timeout", &self.timeout)
            .field("origin", &self.origin)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use shardwright_placement::ObjectId;

    use super::*;

    fn key(object_type: &str, id: &str) -> ObjectKey {
        ObjectKey::new(object_type, ObjectId::parse(id).unwrap())
    }

    #[test]
    fn a_chain_holds_objects_by_type_and_id() {
        let chain = Chain::default().with(key("Counter", "a")).with(key("Room", "shard#5/x"));
        assert_eq!(chain.len(), 2);
        assert!(chain.holds(&key("Counter", "a")) && !chain.holds(&key("Room", "a")));
    }

    fn counter(id: &str) -> ObjectKey {
        key("Counter", id)
    }

    fn call() -> Call {
        Call::new(counter("a"), "add", "1", Duration::from_secs(1))
    }

    #[test]
    fn a_call_that_is_too_large_or_cyclic_is_refused() {
        assert_eq!(call().check(), Ok(()));
        let large = Call { payload: vec![0; MAX_PAYLOAD_SIZE + 1].into(), ..call() };
        let size = MAX_PAYLOAD_SIZE as u64;
        assert_eq!(large.check(), Err(CallError::TooLarge { size: size + 1, limit: size }));
        let cycle = Call { chain: Chain::new([counter("a")]), ..call() };
        assert_eq!(cycle.check(), Err(CallError::Cycle));
        let links = (0..MAX_CHAIN_LENGTH).map(|n| counter(&format!("b{n}")));
        let long = Call { chain: Chain::new(links), ..call() };
        assert_eq!(long.check(), Err(CallError::ChainTooLong { limit: 32 }));
    }

    #[test]
    fn debug_output_contains_no_payload() {
        assert!(!format!("{:?}", Call { payload: "secret".into(), ..call() }).contains("secret"));
    }
}
