//! The lowest valid fence.
//!
//! It follows from the store's generation, which rises when the store is restored from a backup. A
//! read may return an older generation, and only a commit that compares it proves it current. So
//! the clock's mark compares it, and operations that change something get no time before that. See
//! [`crate::clock`].

use std::sync::{Mutex, MutexGuard, PoisonError};

use shardwright_contracts::{FenceEpoch, InfraError};
use shardwright_store::{CommitBuilder, Expect, Key, Revision, Versioned};

use crate::Operation;
use crate::codec::StoreGenerationRecord;
use crate::listing;

/// Bits of the fences within a generation. The generation is in the bits above.
const FENCE_BITS: u32 = 32;

/// The lowest valid fence that this process knows. It never decreases.
pub struct FenceFloor {
    key: Key,
    known: Mutex<Known>,
}

#[derive(Clone, Copy)]
struct Known {
    floor: FenceEpoch,
    generation_at: Option<Revision>,
    /// Whether a commit has compared the generation.
    is_confirmed: bool,
}

impl FenceFloor {
    /// Starts from a generation that was read.
    pub fn new(key: Key, generation: StoreGenerationRecord, at: Option<Revision>) -> Self {
        let known = Known { floor: floor_of(generation), generation_at: at, is_confirmed: false };
        Self { key, known: Mutex::new(known) }
    }

    /// The lowest valid fence.
    pub fn get(&self) -> FenceEpoch {
        self.lock().floor
    }

    /// Whether a commit has compared the generation. Until then it is known from a read alone.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.lock().is_confirmed
    }

    /// Key of the generation.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Makes a commit compare the generation.
    pub fn compare_in(&self, commit: CommitBuilder) -> CommitBuilder {
        let expect = self.lock().generation_at.map_or(Expect::Absent, Expect::At);
        commit.expect(self.key.clone(), expect)
    }

    /// Records that a commit that compared the generation was applied.
    pub(crate) fn confirm(&self) {
        self.lock().is_confirmed = true;
    }

    /// Adopts the generation that a conflicting commit has found.
    pub fn learn(&self, found: Option<&Versioned>, operation: Operation) -> Result<(), InfraError> {
        let mut known = self.lock();
        if let Some(found) = found {
            let generation = listing::decode(found, operation)?;
            known.floor = known.floor.max(floor_of(generation));
        }
        known.generation_at = found.map(|found| found.revision);
        known.is_confirmed = true;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the first fence of a generation.
fn floor_of(generation: StoreGenerationRecord) -> FenceEpoch {
    let floor = u64::from(generation.number) << FENCE_BITS;
    FenceEpoch::from_raw(floor).unwrap_or(FenceEpoch::INITIAL)
}
