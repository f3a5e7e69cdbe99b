use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use shardwright_api::limits::HeldLimits;
use shardwright_api::{CallError, LimitOption};
use shardwright_contracts::Env;

use crate::call::Call;
use crate::quota::{Charge, Quota};

/// The calls of a process that wait for a shard. Each peer has a share of their number and of
/// their bytes.
#[derive(Debug)]
pub(crate) struct Queue {
    calls: Arc<Quota>,
    bytes: Arc<Quota>,
}

/// A slot in the queue.
pub(crate) struct QueueSlot {
    _call: Charge,
    _bytes: Charge,
}

impl Queue {
    pub(crate) fn new(limits: HeldLimits) -> Self {
        Self { calls: Quota::new(limits.calls), bytes: Quota::new(limits.bytes) }
    }

    /// Takes a slot, if one is free.
    pub(crate) fn enter(&self, call: &Call) -> Result<QueueSlot, CallError> {
        let peer = call.origin.as_ref().map(|origin| origin.peer());
        let one = self.calls.take(peer, 1);
        let one = one.map_err(|over| {
            let (all, peer) = (LimitOption::HeldCalls, LimitOption::HeldCallsPerAddress);
            CallError::QueueFull(over.of(all, peer))
        })?;
        let bytes = self.bytes.take(peer, call.payload.len() as u64);
        let bytes = bytes.map_err(|over| {
            let (all, peer) = (LimitOption::HeldBytes, LimitOption::HeldBytesPerAddress);
            CallError::Overloaded(over.of(all, peer))
        })?;
        Ok(QueueSlot { _call: one, _bytes: bytes })
    }

    /// The number of waiting calls.
    pub(crate) fn len(&self) -> u64 {
        self.calls.used()
    }
}

/// The output of a future, or `None` if it is not ready at a time of the monotonic clock.
pub(crate) async fn within<T>(
    env: &dyn Env,
    deadline: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let left = deadline.saturating_sub(env.monotonic());
    tokio::select! {
        biased;
        value = future => Some(value),
        () = env.sleep(left) => None,
    }
}

#[cfg(test)]
mod tests {
    use shardwright_api::Limit;
    use shardwright_api::limits::Share;
    use shardwright_placement::ObjectId;

    use super::*;
    use crate::call::{ObjectKey, Origin};
    use crate::quota::Peer;

    fn queue(calls: Share, bytes: Share) -> Queue {
        Queue::new(HeldLimits { calls, bytes })
    }

    /// A call of a peer with two bytes, or of this process.
    fn call(network: Option<u128>) -> Call {
        let peer = |network| Peer { network, connection: None };
        let bytes = || Quota::new(Share { all: 0, peer: 0 });
        let origin = network.map(|network| Arc::new(Origin::new(peer(network), &bytes())));
        let target = ObjectKey::new("Counter", ObjectId::parse("a").unwrap());
        Call { origin, ..Call::new(target, "add", "10", Duration::ZERO) }
    }

    #[test]
    fn the_queue_has_a_limit() {
        let queue = queue(Share { all: 2, peer: 2 }, Share { all: 9, peer: 9 });
        let enter = || queue.enter(&call(None));
        let (one, other) = (enter().unwrap(), enter().unwrap());
        let limit = Limit { option: LimitOption::HeldCalls, value: 2 };
        assert_eq!(enter().err(), Some(CallError::QueueFull(limit)));
        drop(one);
        assert!(enter().is_ok());
        drop(other);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_client_with_many_held_calls_fails_no_other_client() {
        let limits = HeldLimits::GATE;
        let queue = Queue::new(limits);
        let held: Vec<_> = (0..10_050).map_while(|_| queue.enter(&call(Some(1))).ok()).collect();
        assert_eq!(held.len() as u64, limits.calls.peer);
        let value = limits.calls.peer;
        let full = CallError::QueueFull(Limit { option: LimitOption::HeldCallsPerAddress, value });
        assert_eq!(queue.enter(&call(Some(1))).err(), Some(full));
        let others: Vec<_> = (2..2_000).map(|other| queue.enter(&call(Some(other)))).collect();
        assert!(others.iter().all(Result::is_ok));
        assert!(queue.enter(&call(None)).is_ok(), "nested calls of the process");
    }

    #[test]
    fn held_bytes_have_a_limit() {
        let queue = queue(Share { all: 9, peer: 9 }, Share { all: 100, peer: 3 });
        let one = queue.enter(&call(Some(1))).unwrap();
        let over = queue.enter(&call(Some(1))).err();
        let limit = Limit { option: LimitOption::HeldBytesPerAddress, value: 3 };
        assert_eq!(over, Some(CallError::Overloaded(limit)));
        assert_eq!(queue.len(), 1, "a refused call leaves nothing behind");
        assert!(queue.enter(&call(Some(2))).is_ok());
        drop(one);
    }
}
