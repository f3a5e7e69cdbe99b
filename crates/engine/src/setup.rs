//! Opening a store: its format and its generation.

use shardwright_contracts::InfraError;
use shardwright_store::{AnyStore, Commit, Expect, Key, Revision};

use crate::codec::{FormatRecord, Record, StoreGenerationRecord};
use crate::floor::FenceFloor;
use crate::keyspace::Keyspace;
use crate::listing;
use crate::transact::{Decided, Decision, Driver, Read, Transaction};
use crate::{Operation, operation};

/// The layout of the store that this code reads and writes.
const FORMAT: u32 = 1;
const OPERATION: Operation = operation!("store.open");
/// Retries while other processes set up the store.
const OPEN_RETRIES: u32 = 8;

/// Error of opening a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreOpenError {
    /// It was written by a later version.
    #[error(
        "the store has format {found}, and this version knows formats up to {known}; use a newer \
         version"
    )]
    NewerFormat {
        /// Format of the store.
        found: u32,
        /// Newest format that this version supports.
        known: u32,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] InfraError),
}

/// Sets a store up if it is empty, and returns the lowest fence that is valid in it.
pub async fn set_up(store: &AnyStore, keys: &Keyspace) -> Result<FenceFloor, StoreOpenError> {
    let format = ensure(store, keys.format(), FormatRecord { version: FORMAT }).await?.0;
    if format.version > FORMAT {
        return Err(StoreOpenError::NewerFormat { found: format.version, known: FORMAT });
    }
    let (generation, at) =
        ensure(store, keys.generation(), StoreGenerationRecord { number: 0 }).await?;
    Ok(FenceFloor::new(keys.generation(), generation, Some(at)))
}

/// Like [`set_up`], but writes nothing. A missing record counts as its initial value.
pub async fn look_up(store: &AnyStore, keys: &Keyspace) -> Result<FenceFloor, StoreOpenError> {
    let format = load::<FormatRecord>(store, &keys.format()).await?;
    if let Some((FormatRecord { version: found }, _)) =
        format.filter(|(one, _)| one.version > FORMAT)
    {
        return Err(StoreOpenError::NewerFormat { found, known: FORMAT });
    }
    let (generation, at) = match load::<StoreGenerationRecord>(store, &keys.generation()).await? {
        Some((generation, at)) => (generation, Some(at)),
        None => (StoreGenerationRecord { number: 0 }, None),
    };
    Ok(FenceFloor::new(keys.generation(), generation, at))
}

/// Whether a store was set up under these keys, in a format that this version knows.
pub async fn is_set_up(store: &AnyStore, keys: &Keyspace) -> Result<bool, StoreOpenError> {
    look_up(store, keys).await?;
    Ok(load::<FormatRecord>(store, &keys.format()).await?.is_some())
}

/// Makes every fence granted so far stale, and returns the new generation.
///
/// For a store that was restored from a backup, before any process works on it: what was granted
/// after the backup must not be granted again.
pub async fn raise_generation(store: &AnyStore, keys: &Keyspace) -> Result<u32, StoreOpenError> {
    let driver = Driver::new(store.clone(), None, OPEN_RETRIES);
    Ok(driver.transact(&mut Raising { store, key: keys.generation() }).await?)
}

/// Loads the record under a key, with its revision.
pub async fn load<T: Record>(
    store: &AnyStore,
    key: &Key,
) -> Result<Option<(T, Revision)>, InfraError> {
    let (found, _) = listing::load_one(store, key, OPERATION).await?;
    listing::decode_if_found(found.as_ref(), OPERATION)
}

/// Loads the record under a key, and writes `value` if there is none.
pub async fn ensure<T: Record + Clone + Send + Sync>(
    store: &AnyStore,
    key: Key,
    value: T,
) -> Result<(T, Revision), InfraError> {
    let driver = Driver::new(store.clone(), None, OPEN_RETRIES);
    driver.transact(&mut Ensuring { store, key, value }).await
}

/// Writes a record unless it exists.
struct Ensuring<'s, T> {
    store: &'s AnyStore,
    key: Key,
    value: T,
}

impl<T: Record + Clone + Send + Sync> Transaction for Ensuring<'_, T> {
    type Basis = Option<(T, Revision)>;
    type Answer = ();
    type Output = (T, Revision);
    type Error = InfraError;

    fn operation(&self) -> Operation {
        OPERATION
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        Ok((load(self.store, &self.key).await?, read))
    }

    async fn decide(&mut self, found: &Self::Basis) -> Decided<(), InfraError> {
        if found.is_some() {
            return Ok(Decision::Answer(()));
        }
        let commit = Commit::builder().expect(self.key.clone(), Expect::Absent);
        Ok(Decision::Commit(commit.put(self.key.clone(), self.value.encode()), ()))
    }

    fn finish(
        &mut self,
        found: Self::Basis,
        (): (),
        stored: Option<(&Commit, Revision)>,
    ) -> (T, Revision) {
        let revision = stored.map_or(Revision::ZERO, |(_, revision)| revision);
        found.unwrap_or_else(|| (self.value.clone(), revision))
    }
}

/// Raises the generation of a store by one.
struct Raising<'s> {
    store: &'s AnyStore,
    key: Key,
}

impl Transaction for Raising<'_> {
    type Basis = Option<(StoreGenerationRecord, Revision)>;
    type Answer = u32;
    type Output = u32;
    type Error = InfraError;

    fn operation(&self) -> Operation {
        OPERATION
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        Ok((load(self.store, &self.key).await?, read))
    }

    async fn decide(&mut self, found: &Self::Basis) -> Decided<u32, InfraError> {
        let (number, expect) = match found {
            Some((current, at)) => (current.number, Expect::At(*at)),
            None => (0, Expect::Absent),
        };
        let number = number.saturating_add(1);
        let commit = Commit::builder().expect(self.key.clone(), expect);
        let commit = commit.put(self.key.clone(), StoreGenerationRecord { number }.encode());
        Ok(Decision::Commit(commit, number))
    }

    fn finish(&mut self, _: Self::Basis, number: u32, _: Option<(&Commit, Revision)>) -> u32 {
        number
    }
}
