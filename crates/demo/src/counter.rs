use std::sync::Arc;

use bytes::Bytes;
use shardwright_contracts::FenceEpoch;
use shardwright_node::{Activation, CallContext, ObjectError, ObjectType, ObjectTypes};
use shardwright_store::{
    Commit, CommitError, Expect, Key, Revision, ScanError, ScanFrom, Store, StoreRange,
};

use crate::record::Record;

/// The name of the object type for clients.
pub const TYPE: &str = "Counter";

/// How often a write is retried after a conflict.
const ATTEMPTS: usize = 8;
/// The number of counters per page of a scan.
const PAGE: usize = 1_000;

/// The counters of a cluster, in a store.
#[derive(Debug)]
pub struct Counters<S> {
    store: Arc<S>,
    prefix: Arc<str>,
}

/// A counter that is active on a node.
#[derive(Debug)]
pub struct Counter {
    key: Key,
    /// The fence of this node's claim on the shard.
    fence: FenceEpoch,
    /// The stored value. `None` after a write with unknown outcome.
    stored: Option<Stored>,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    value: i64,
    revision: Revision,
}

impl<S> Clone for Counters<S> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), prefix: Arc::clone(&self.prefix) }
    }
}

impl<S: Store> Counters<S> {
    /// The counters of the cluster `name`.
    pub fn new(store: Arc<S>, name: &str) -> Self {
        Self { store, prefix: format!("counter/{name}/").into() }
    }

    /// The object types for a node that serves the counters.
    #[must_use]
    pub fn types(&self) -> ObjectTypes {
        ObjectTypes::new().with(TYPE, self.clone())
    }

    /// The sum of all stored counters.
    pub async fn total(&self) -> Result<i128, ScanError> {
        let range = StoreRange::prefix(self.prefix.as_bytes().to_vec());
        let (mut total, mut page) = (0, ScanFrom::first(PAGE));
        loop {
            let read = self.store.scan(&range, page).await?;
            let records =
                read.entries.iter().filter_map(|(_, one)| Record::decode(&one.value).ok());
            total += records.map(|record| i128::from(record.value)).sum::<i128>();
            match read.next {
                Some(after) => page = ScanFrom { limit: PAGE, after: Some(after) },
                None => return Ok(total),
            }
        }
    }

    /// Reads a counter, and writes this holder's fence. From then on the store rejects writes of
    /// earlier holders.
    async fn take_over(&self, key: &Key, fence: FenceEpoch) -> Result<Stored, ObjectError> {
        for _ in 0..ATTEMPTS {
            let loaded = self.store.load(std::slice::from_ref(key)).await;
            let found = loaded.map_err(ObjectError::refused)?.values.into_iter().next().flatten();
            let (value, expect) = match found {
                None => (0, Expect::Absent),
                Some(found) => {
                    let record = Record::decode(&found.value).map_err(ObjectError::refused)?;
                    if record.fence > fence {
                        return Err(ObjectError::StaleFence);
                    }
                    if record.fence == fence {
                        return Ok(Stored { value: record.value, revision: found.revision });
                    }
                    (record.value, Expect::At(found.revision))
                }
            };
            match self.store.commit(put(key, expect, Record { value, fence })?).await {
                Ok(revision) => return Ok(Stored { value, revision }),
                // Another write came first, or the outcome is unknown. Read again.
                Err(CommitError::Conflict(_) | CommitError::Unknown(_)) => {}
                Err(error) => return Err(ObjectError::refused(error)),
            }
        }
        Err(ObjectError::refused("too many concurrent writes to this counter; try again"))
    }

    async fn add(&self, counter: &mut Counter, amount: i64) -> Result<i64, ObjectError> {
        for _ in 0..ATTEMPTS {
            let Stored { value, revision } = self.known(counter).await?;
            let sum = value.checked_add(amount);
            let value = sum.ok_or_else(|| ObjectError::refused("the counter would overflow"))?;
            let record = Record { value, fence: counter.fence };
            let commit = put(&counter.key, Expect::At(revision), record)?;
            // The outcome is unknown until the store answers, even if this call is dropped.
            counter.stored = None;
            match self.store.commit(commit).await {
                Ok(revision) => {
                    counter.stored = Some(Stored { value, revision });
                    return Ok(value);
                }
                // A later holder wrote, or an earlier write of our own arrived late. Read again.
                Err(CommitError::Conflict(_)) => {}
                Err(CommitError::Unknown(_)) => return Err(ObjectError::Unknown),
                Err(error) => return Err(ObjectError::refused(error)),
            }
        }
        Err(ObjectError::refused("too many concurrent writes to this counter; try again"))
    }

    async fn known(&self, counter: &mut Counter) -> Result<Stored, ObjectError> {
        let stored = match counter.stored {
            Some(stored) => stored,
            None => self.take_over(&counter.key, counter.fence).await?,
        };
        counter.stored = Some(stored);
        Ok(stored)
    }
}

impl<S: Store> ObjectType for Counters<S> {
    type Object = Counter;

    async fn activate(&self, activation: &Activation) -> Result<Counter, ObjectError> {
        let fence = activation.fence;
        let fence = fence.ok_or_else(|| {
            ObjectError::refused("a counter needs a shard; use an object id without a node")
        })?;
        let key = Key::from(format!("{}{}", self.prefix, activation.object.id.as_str()));
        let stored = Some(self.take_over(&key, fence).await?);
        Ok(Counter { key, fence, stored })
    }

    async fn handle(
        &self,
        counter: &mut Counter,
        _context: &CallContext,
        method: &str,
        payload: Bytes,
    ) -> Result<Bytes, ObjectError> {
        let value = match method {
            "add" => {
                let amount =
                    str::from_utf8(&payload).ok().and_then(|text| text.trim().parse().ok());
                let amount = amount.ok_or_else(|| {
                    ObjectError::refused("the payload of `add` must be an integer")
                })?;
                self.add(counter, amount).await?
            }
            "get" => self.known(counter).await?.value,
            _ => return Err(ObjectError::refused("unknown method; use `add` or `get`")),
        };
        Ok(value.to_string().into())
    }
}

/// A write that succeeds only if the counter still has the expected revision.
fn put(key: &Key, expect: Expect, record: Record) -> Result<Commit, ObjectError> {
    let commit = Commit::builder().expect(key.clone(), expect);
    commit.put(key.clone(), record.to_string()).build().map_err(ObjectError::refused)
}

#[cfg(test)]
mod tests {
    use shardwright_store::MachineClock;
    use shardwright_store::memory::MemoryStore;

    use super::*;

    fn fence(raw: u64) -> FenceEpoch {
        FenceEpoch::from_raw(raw).unwrap()
    }

    async fn on_node(counters: &Counters<MemoryStore>, raw: u64) -> Result<Counter, ObjectError> {
        let key = Key::from("counter/test/a");
        let stored = Some(counters.take_over(&key, fence(raw)).await?);
        Ok(Counter { key, fence: fence(raw), stored })
    }

    fn counters() -> Counters<MemoryStore> {
        Counters::new(Arc::new(MemoryStore::new(Arc::new(MachineClock))), "test")
    }

    #[tokio::test]
    async fn next_holder_continues_from_the_stored_value() {
        let counters = counters();
        let mut first = on_node(&counters, 1).await.unwrap();
        assert_eq!(counters.add(&mut first, 5).await, Ok(5));
        assert_eq!(counters.add(&mut first, -2).await, Ok(3));
        let mut second = on_node(&counters, 2).await.unwrap();
        assert_eq!(counters.add(&mut second, 1).await, Ok(4));
        assert_eq!(counters.total().await.unwrap(), 4);
    }

    #[tokio::test]
    async fn replaced_holder_is_fenced() {
        let counters = counters();
        let mut paused = on_node(&counters, 1).await.unwrap();
        assert_eq!(counters.add(&mut paused, 1).await, Ok(1));
        let mut next = on_node(&counters, 2).await.unwrap();
        // The fence holds even before the next holder adds.
        assert_eq!(counters.add(&mut paused, 10).await, Err(ObjectError::StaleFence));
        assert_eq!(counters.add(&mut next, 1).await, Ok(2));
        assert_eq!(counters.add(&mut paused, 10).await, Err(ObjectError::StaleFence));
        assert!(matches!(on_node(&counters, 1).await, Err(ObjectError::StaleFence)));
        assert_eq!(counters.total().await.unwrap(), 2);
    }

    #[tokio::test]
    async fn overflowing_add_is_refused() {
        let counters = counters();
        let mut counter = on_node(&counters, 1).await.unwrap();
        assert_eq!(counters.add(&mut counter, i64::MAX).await, Ok(i64::MAX));
        assert!(matches!(counters.add(&mut counter, 1).await, Err(ObjectError::Refused(_))));
        assert_eq!(counters.total().await.unwrap(), i128::from(i64::MAX));
    }
}
