//! Below what no fence is granted or accepted.
//!
//! The generation of the store says so, and rises when the store was restored from a backup. A
//! store may show an older one than there is, and only a commit that compares it tells. So the
//! mark of the clock compares it, and no time is told to anybody who would change something before
//! that was done once. See [`crate::clock`].

use std::sync::{Mutex, MutexGuard, PoisonError};

use shardwright_contracts::{FenceEpoch, InfraError};
use shardwright_store::{CommitBuilder, Expect, Key, Revision, Versioned};

use crate::codec::{Record, StoreGenerationRecord};
use crate::fault;

/// Fences of one generation; the number of the generation lies above.
const FENCE_BITS: u32 = 32;

/// The least fence, as far as is known. It never falls.
pub struct FenceFloor {
    key: Key,
    known: Mutex<Known>,
}

#[derive(Clone, Copy)]
struct Known {
    floor: FenceEpoch,
    generation_at: Option<Revision>,
    /// Whether a commit has compared the generation.
    is_sure: bool,
}

impl FenceFloor {
    /// Goes by a generation that was read.
    pub fn new(key: Key, generation: StoreGenerationRecord, at: Option<Revision>) -> Self {
        let known = Known { floor: floor_of(generation), generation_at: at, is_sure: false };
        Self { key, known: Mutex::new(known) }
    }

    /// The lowest valid fence.
    pub fn get(&self) -> FenceEpoch {
        self.lock().floor
    }

    /// Whether this is the floor that was there when somebody last compared it, and not only what
    /// a read has shown.
    pub fn is_sure(&self) -> bool {
        self.lock().is_sure
    }

    /// Under which key the generation is.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Makes a commit compare the generation.
    pub fn compare_in(&self, commit: CommitBuilder) -> CommitBuilder {
        let expect = self.lock().generation_at.map_or(Expect::Absent, Expect::At);
        commit.expect(self.key.clone(), expect)
    }

    /// Notes that a commit which compared the generation was applied.
    pub fn confirm(&self) {
        self.lock().is_sure = true;
    }

    /// Goes by the generation that a commit has found which compared it and was refused.
    pub fn learn(
        &self,
        found: Option<&Versioned>,
        operation: &'static str,
    ) -> Result<(), InfraError> {
        let mut known = self.lock();
        if let Some(found) = found {
            let generation = StoreGenerationRecord::decode(&found.value);
            let generation = generation.map_err(|error| fault::decode(operation, &error))?;
            known.floor = known.floor.max(floor_of(generation));
        }
        known.generation_at = found.map(|found| found.revision);
        known.is_sure = true;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The generation in the high bits.
pub fn floor_of(generation: StoreGenerationRecord) -> FenceEpoch {
    let floor = u64::from(generation.number) << FENCE_BITS;
    FenceEpoch::from_raw(floor).unwrap_or(FenceEpoch::INITIAL)
}
