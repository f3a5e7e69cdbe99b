//! Locks of shards, which keep calls and transitions of ownership apart.
//!
//! A call holds the read lock of its object's shard from the check of ownership to its end. A
//! transition (a claim, a release) holds the write lock. So if the node holds the shard when a call
//! takes the lock, it holds the shard until the call has ended. Objects of a node need no lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shardwright_contracts::ShardId;
use shardwright_placement::{ShardCount, ShardOutOfRange};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::per_shard::PerShard;

/// One lock per shard.
pub(crate) struct ShardLocks {
    locks: PerShard<RwLock<()>>,
}

/// A shared lock: the shard is neither claimed nor released while this exists.
#[derive(Debug)]
#[must_use = "dropping this releases the lock"]
pub(crate) struct ShardReadGuard {
    _lock: OwnedRwLockReadGuard<()>,
}

/// An exclusive lock: no call runs in the shard while this exists.
#[derive(Debug)]
#[must_use = "dropping this releases the lock"]
pub(crate) struct ShardWriteGuard {
    shard: ShardId,
    _lock: OwnedRwLockWriteGuard<()>,
}

impl ShardWriteGuard {
    pub(crate) const fn shard(&self) -> ShardId {
        self.shard
    }
}

impl ShardLocks {
    pub(crate) fn new(num_shards: ShardCount) -> Self {
        Self { locks: PerShard::new(num_shards) }
    }

    /// Takes the lock for a call.
    pub(crate) async fn acquire_read(
        &self,
        shard: ShardId,
    ) -> Result<ShardReadGuard, ShardOutOfRange> {
        let lock = Arc::clone(self.locks.get(shard)?).read_owned().await;
        Ok(ShardReadGuard { _lock: lock })
    }

    /// The same, if it is available without waiting.
    pub(crate) fn try_acquire_read(
        &self,
        shard: ShardId,
    ) -> Result<Option<ShardReadGuard>, ShardOutOfRange> {
        let lock = Arc::clone(self.locks.get(shard)?).try_read_owned().ok();
        Ok(lock.map(|lock| ShardReadGuard { _lock: lock }))
    }

    /// Takes the lock for a transition.
    pub(crate) async fn acquire_write(
        &self,
        shard: ShardId,
    ) -> Result<ShardWriteGuard, ShardOutOfRange> {
        let lock = Arc::clone(self.locks.get(shard)?).write_owned().await;
        Ok(ShardWriteGuard { shard, _lock: lock })
    }

    /// Takes the locks for a transition of several shards, once each, in ascending order, so that
    /// transitions do not deadlock.
    pub(crate) async fn acquire_write_multiple(
        &self,
        shards: impl IntoIterator<Item = ShardId>,
    ) -> Result<Vec<ShardWriteGuard>, ShardOutOfRange> {
        let shards: BTreeSet<ShardId> = shards.into_iter().collect();
        // Nothing is locked if a shard is out of range.
        for shard in &shards {
            self.locks.get(*shard)?;
        }
        let mut guards = Vec::with_capacity(shards.len());
        for shard in shards {
            guards.push(self.acquire_write(shard).await?);
        }
        Ok(guards)
    }
}

/// Locks by shard, to be released one by one.
pub(crate) fn by_shard(locks: Vec<ShardWriteGuard>) -> BTreeMap<ShardId, ShardWriteGuard> {
    locks.into_iter().map(|lock| (lock.shard(), lock)).collect()
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn locks() -> ShardLocks {
        ShardLocks::new(ShardCount::try_new(64).unwrap())
    }

    /// The output of a future that does not wait.
    fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn read(locks: &ShardLocks, raw: u64) -> Option<ShardReadGuard> {
        at_once(locks.acquire_read(ShardId::from_raw(raw))).map(Result::unwrap)
    }

    #[test]
    fn calls_share_a_lock_and_transitions_do_not() {
        let locks = locks();
        let shard = ShardId::from_raw(48);
        let calls = (read(&locks, 48).unwrap(), read(&locks, 48).unwrap());
        assert!(at_once(locks.acquire_write(shard)).is_none());
        drop(calls);
        let transition = at_once(locks.acquire_write(shard)).unwrap().unwrap();
        assert_eq!(transition.shard(), shard);
        assert!(read(&locks, 48).is_none());
        assert!(locks.try_acquire_read(shard).unwrap().is_none());
        assert!(at_once(locks.acquire_write(shard)).is_none());
        assert!(read(&locks, 47).is_some(), "each shard has its own lock");
    }

    #[test]
    fn several_shards_are_locked_once_in_ascending_order() {
        let locks = locks();
        let raw = |guards: &[ShardWriteGuard]| {
            guards.iter().map(|guard| guard.shard().as_raw()).collect::<Vec<_>>()
        };
        let shards = [9, 3, 9, 7, 3].map(ShardId::from_raw);
        let guards = at_once(locks.acquire_write_multiple(shards)).unwrap().unwrap();
        assert_eq!(raw(&guards), [3, 7, 9]);
        drop(guards);

        // While it waits for the first, it holds none of the later ones.
        let _first = at_once(locks.acquire_write(ShardId::from_raw(3))).unwrap().unwrap();
        let mut waiting = pin!(locks.acquire_write_multiple(shards));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert!(at_once(locks.acquire_write(ShardId::from_raw(9))).is_some());
    }

    #[test]
    fn a_shard_out_of_range_locks_nothing() {
        let locks = locks();
        let missing = ShardOutOfRange { shard: 64, num_shards: 64 };
        let read = at_once(locks.acquire_read(ShardId::from_raw(64))).unwrap();
        assert_eq!(read.unwrap_err(), missing);
        let both = [ShardId::from_raw(1), ShardId::from_raw(64)];
        let write = at_once(locks.acquire_write_multiple(both)).unwrap();
        assert_eq!(write.unwrap_err(), missing);
        assert!(at_once(locks.acquire_write(ShardId::from_raw(1))).is_some());
    }
}
