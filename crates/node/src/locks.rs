//! Locks of shards, which keep calls and transitions of ownership apart.
//!
//! A call holds the read lock of its object's shard from before the ownership is looked at until
//! it has ended. A transition (a claim, a release) holds the write lock. So if
//! the node has the shard when a lock was taken, it keeps it for as long as the lock is held.
//!
//! Which shard, if any, is asked of the parsed id: an object that its id puts into a shard is
//! locked like one that is there by its hash, and one that lives on a node takes no lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shardwright_contracts::ShardId;
use shardwright_placement::{ObjectIdRef, ShardOutOfRange, Sharding};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::per_shard::PerShard;

/// One lock per shard.
pub struct ShardLocks {
    sharding: Sharding,
    locks: PerShard<RwLock<()>>,
}

/// A shard that is neither claimed nor released while this is held. Shared.
#[derive(Debug)]
#[must_use = "the lock is held only for as long as this is"]
pub struct ShardReadGuard {
    shard: ShardId,
    _lock: OwnedRwLockReadGuard<()>,
}

/// A shard in which no call runs while this is held. One may hold it.
#[derive(Debug)]
#[must_use = "the lock is held only for as long as this is"]
pub struct ShardWriteGuard {
    shard: ShardId,
    _lock: OwnedRwLockWriteGuard<()>,
}

impl ShardReadGuard {
    /// Which shard.
    #[must_use]
    pub const fn shard(&self) -> ShardId {
        self.shard
    }
}

impl ShardWriteGuard {
    /// Which shard.
    #[must_use]
    pub const fn shard(&self) -> ShardId {
        self.shard
    }
}

impl ShardLocks {
    /// The locks of a cluster's shards.
    #[must_use]
    pub fn new(sharding: Sharding) -> Self {
        Self { sharding, locks: PerShard::new(sharding.num_shards) }
    }

    /// The lock for something that is done with an object; none if it belongs to no shard.
    pub async fn acquire_read(
        &self,
        id: ObjectIdRef<'_>,
    ) -> Result<Option<ShardReadGuard>, ShardOutOfRange> {
        match self.sharding.shard_of(id)? {
            Some(shard) => self.acquire_read_shard(shard).await.map(Some),
            None => Ok(None),
        }
    }

    /// The same for an object of a shard that is known already.
    pub async fn acquire_read_shard(
        &self,
        shard: ShardId,
    ) -> Result<ShardReadGuard, ShardOutOfRange> {
        let lock = Arc::clone(self.locks.get(shard)?).read_owned().await;
        Ok(ShardReadGuard { shard, _lock: lock })
    }

    /// The same if it can be had without waiting.
    pub fn try_acquire_read_shard(
        &self,
        shard: ShardId,
    ) -> Result<Option<ShardReadGuard>, ShardOutOfRange> {
        let lock = Arc::clone(self.locks.get(shard)?).try_read_owned().ok();
        Ok(lock.map(|lock| ShardReadGuard { shard, _lock: lock }))
    }

    /// The lock for a transition of a shard.
    pub async fn acquire_write(&self, shard: ShardId) -> Result<ShardWriteGuard, ShardOutOfRange> {
        let lock = Arc::clone(self.locks.get(shard)?).write_owned().await;
        Ok(ShardWriteGuard { shard, _lock: lock })
    }

    /// The locks for a transition of several shards, each once and in ascending order, so that no
    /// two who want some of the same wait for each other.
    pub async fn acquire_write_multiple(
        &self,
        shards: impl IntoIterator<Item = ShardId>,
    ) -> Result<Vec<ShardWriteGuard>, ShardOutOfRange> {
        let shards: BTreeSet<ShardId> = shards.into_iter().collect();
        // Nothing is locked if something is wrong.
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

/// Locks that are given back one by one.
pub(crate) fn by_shard(locks: Vec<ShardWriteGuard>) -> BTreeMap<ShardId, ShardWriteGuard> {
    locks.into_iter().map(|lock| (lock.shard(), lock)).collect()
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use shardwright_placement::{ObjectId, ShardCount};

    use super::*;

    fn locks() -> ShardLocks {
        let num_shards = ShardCount::try_new(64).unwrap();
        ShardLocks::new(Sharding { num_shards, ..Sharding::default() })
    }

    fn id(text: &str) -> ObjectId {
        ObjectId::parse(text).unwrap()
    }

    /// What a future comes to without waiting.
    fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn read(locks: &ShardLocks, text: &str) -> Option<Option<ShardReadGuard>> {
        at_once(locks.acquire_read(id(text).borrowed())).map(Result::unwrap)
    }

    #[test]
    fn calls_of_a_shard_run_beside_each_other_and_transitions_beside_nothing() {
        let locks = locks();
        let shard = ShardId::from_raw(48);
        let one = read(&locks, "user-12345").unwrap().unwrap();
        let other = read(&locks, "user-12345").unwrap().unwrap();
        assert_eq!(one.shard(), shard);
        assert!(at_once(locks.acquire_write(shard)).is_none());
        drop((one, other));
        let transition = at_once(locks.acquire_write(shard)).unwrap().unwrap();
        assert_eq!(transition.shard(), shard);
        assert!(read(&locks, "user-12345").is_none());
        assert!(locks.try_acquire_read_shard(shard).unwrap().is_none());
        assert!(at_once(locks.acquire_write(shard)).is_none());
        assert!(read(&locks, "foobar").is_some(), "another shard is another lock");
    }

    #[test]
    fn an_object_that_names_its_shard_is_locked_like_one_that_is_hashed_to_it() {
        let locks = locks();
        let transition = at_once(locks.acquire_write(ShardId::from_raw(5))).unwrap().unwrap();
        assert!(read(&locks, "shard#5/counter").is_none());
        drop(transition);
        let call = read(&locks, "shard#5/counter").unwrap().unwrap();
        assert!(at_once(locks.acquire_write(ShardId::from_raw(5))).is_none());
        drop(call);
    }

    #[test]
    fn an_object_that_lives_on_a_node_takes_no_lock() {
        let locks = locks();
        let all = (0..64).map(ShardId::from_raw);
        let _transitions = at_once(locks.acquire_write_multiple(all)).unwrap().unwrap();
        assert!(read(&locks, "10.0.0.5:47001/status").unwrap().is_none());
    }

    #[test]
    fn several_shards_are_locked_once_each_and_in_ascending_order() {
        let locks = locks();
        let raw = |guards: &[ShardWriteGuard]| {
            guards.iter().map(|guard| guard.shard().as_raw()).collect::<Vec<_>>()
        };
        let shards = [9, 3, 9, 7, 3].map(ShardId::from_raw);
        let guards = at_once(locks.acquire_write_multiple(shards)).unwrap().unwrap();
        assert_eq!(raw(&guards), [3, 7, 9]);
        drop(guards);

        // A waiter for the first has none of the later ones.
        let _first = at_once(locks.acquire_write(ShardId::from_raw(3))).unwrap().unwrap();
        let mut waiting = pin!(locks.acquire_write_multiple(shards));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert!(at_once(locks.acquire_write(ShardId::from_raw(9))).is_some());
    }

    #[test]
    fn a_shard_that_is_not_there_has_no_lock_and_nothing_is_locked_for_it() {
        let locks = locks();
        let missing = ShardOutOfRange { shard: 64, num_shards: 64 };
        let read = at_once(locks.acquire_read(id("shard#64/x").borrowed())).unwrap();
        assert_eq!(read.unwrap_err(), missing);
        let both = [ShardId::from_raw(1), ShardId::from_raw(64)];
        let write = at_once(locks.acquire_write_multiple(both)).unwrap();
        assert_eq!(write.unwrap_err(), missing);
        assert!(at_once(locks.acquire_write(ShardId::from_raw(1))).is_some());
    }
}
