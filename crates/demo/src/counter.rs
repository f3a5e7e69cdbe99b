use std::sync::Arc;

use bytes::Bytes;
use shardwright_contracts::FenceEpoch;
use shardwright_node::{Activation, CallContext, ObjectError, ObjectType, ObjectTypes};
use shardwright_store::{
    Commit, CommitError, Expect, Key, Revision, ScanError, ScanFrom, Store, StoreRange,
};

use crate::record::Record;

/// The name under which clients know the type.
pub const TYPE: &str = "Counter";

/// How often something is tried anew because something else was stored in between.
const TRIES: usize = 8;
/// How many counters are read at a time.
const PAGE: usize = 1_000;

/// The counters of a cluster, in a store.
#[derive(Debug)]
pub struct Counters<S> {
    store: Arc<S>,
    prefix: Arc<str>,
}

/// A counter while it is on a node.
#[derive(Debug)]
pub struct Counter {
    key: Key,
    /// The fence of the claim by which this node has the shard.
    fence: FenceEpoch,
    /// What is stored; not known after a write of which nobody knows whether it happened.
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

    /// What a node has to know to serve them.
    #[must_use]
    pub fn types(&self) -> ObjectTypes {
        ObjectTypes::new().with(TYPE, self.clone())
    }

    /// What all counters together have counted, as it is stored.
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

    /// Reads a counter and makes it this holder's: from here on the store accepts nothing any more
    /// from whoever had it before.
    async fn take_over(&self, key: &Key, fence: FenceEpoch) -> Result<Stored, ObjectError> {
        for _ in 0..TRIES {
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
                // Somebody was faster, or it may have happened: the next look tells.
                Err(CommitError::Conflict(_) | CommitError::Unknown(_)) => {}
                Err(error) => return Err(ObjectError::refused(error)),
            }
        }
        Err(ObjectError::refused("others write the same counter all the time"))
    }

    async fn add(&self, counter: &mut Counter, amount: i64) -> Result<i64, ObjectError> {
        for _ in 0..TRIES {
            let Stored { value, revision } = self.known(counter).await?;
            let sum = value.checked_add(amount);
            let value = sum.ok_or_else(|| ObjectError::refused("it cannot count that far"))?;
            let record = Record { value, fence: counter.fence };
            let commit = put(&counter.key, Expect::At(revision), record)?;
            // Until the answer is there, nobody knows.
            counter.stored = None;
            match self.store.commit(commit).await {
                Ok(revision) => {
                    counter.stored = Some(Stored { value, revision });
                    return Ok(value);
                }
                // Either a later holder has it, or a write of our own came late. Looking tells.
                Err(CommitError::Conflict(_)) => {}
                Err(CommitError::Unknown(_)) => return Err(ObjectError::Unknown),
                Err(error) => return Err(ObjectError::refused(error)),
            }
        }
        Err(ObjectError::refused("others write the same counter all the time"))
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
        let fence = fence.ok_or_else(|| ObjectError::refused("a counter lives in a shard"))?;
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
                let amount = amount.ok_or_else(|| ObjectError::refused("add wants a number"))?;
                self.add(counter, amount).await?
            }
            "get" => self.known(counter).await?.value,
            _ => return Err(ObjectError::refused("a counter knows `add` and `get`")),
        };
        Ok(value.to_string().into())
    }
}

/// A write that happens only if nobody has written the counter since.
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
    async fn a_counter_goes_on_where_the_last_holder_left_it() {
        let counters = counters();
        let mut first = on_node(&counters, 1).await.unwrap();
        assert_eq!(counters.add(&mut first, 5).await, Ok(5));
        assert_eq!(counters.add(&mut first, -2).await, Ok(3));
        let mut second = on_node(&counters, 2).await.unwrap();
        assert_eq!(counters.add(&mut second, 1).await, Ok(4));
        assert_eq!(counters.total().await.unwrap(), 4);
    }

    #[tokio::test]
    async fn a_holder_that_was_replaced_writes_nothing_any_more() {
        let counters = counters();
        let mut paused = on_node(&counters, 1).await.unwrap();
        assert_eq!(counters.add(&mut paused, 1).await, Ok(1));
        let mut next = on_node(&counters, 2).await.unwrap();
        // Even before the next holder has counted anything.
        assert_eq!(counters.add(&mut paused, 10).await, Err(ObjectError::StaleFence));
        assert_eq!(counters.add(&mut next, 1).await, Ok(2));
        assert_eq!(counters.add(&mut paused, 10).await, Err(ObjectError::StaleFence));
        assert!(matches!(on_node(&counters, 1).await, Err(ObjectError::StaleFence)));
        assert_eq!(counters.total().await.unwrap(), 2);
    }

    #[tokio::test]
    async fn it_does_not_count_further_than_it_can() {
        let counters = counters();
        let mut counter = on_node(&counters, 1).await.unwrap();
        assert_eq!(counters.add(&mut counter, i64::MAX).await, Ok(i64::MAX));
        assert!(matches!(counters.add(&mut counter, 1).await, Err(ObjectError::Refused(_))));
        assert_eq!(counters.total().await.unwrap(), i128::from(i64::MAX));
    }
}
