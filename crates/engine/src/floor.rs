//! Below what no fence is granted or accepted.
//!
//! The incarnation of the store says so, and rises when the store was restored from a backup. A
//! store may show an older one than there is, and only a commit that compares it tells. So the
//! mark of the clock compares it, and no time is told to anybody who would change something before
//! that was done once. See [`crate::clock`].

use std::sync::{Mutex, MutexGuard, PoisonError};

use shardwright_contracts::{FenceEpoch, InfraError};
use shardwright_store::{CommitBuilder, Expect, Key, Revision, Versioned};

use crate::codec::{Incarnation, Record};
use crate::fault;

/// Fences of one incarnation; the number of the incarnation lies above.
const FENCE_BITS: u32 = 32;

/// The least fence, as far as is known. It never falls.
pub struct FenceFloor {
    key: Key,
    known: Mutex<Known>,
}

#[derive(Clone, Copy)]
struct Known {
    floor: FenceEpoch,
    incarnation_at: Option<Revision>,
    /// Whether a commit has compared the incarnation.
    is_sure: bool,
}

impl FenceFloor {
    /// Goes by an incarnation that was read.
    pub fn new(key: Key, incarnation: Incarnation, at: Option<Revision>) -> Self {
        let known = Known { floor: floor_of(incarnation), incarnation_at: at, is_sure: false };
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

    /// Under which key the incarnation is.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Makes a commit compare the incarnation.
    pub fn compare_in(&self, commit: CommitBuilder) -> CommitBuilder {
        let expect = self.lock().incarnation_at.map_or(Expect::Absent, Expect::At);
        commit.expect(self.key.clone(), expect)
    }

    /// Notes that a commit which compared the incarnation was applied.
    pub fn confirm(&self) {
        self.lock().is_sure = true;
    }

    /// Goes by the incarnation that a commit has found which compared it and was refused.
    pub fn learn(
        &self,
        found: Option<&Versioned>,
        operation: &'static str,
    ) -> Result<(), InfraError> {
        let mut known = self.lock();
        if let Some(found) = found {
            let incarnation = Incarnation::decode(&found.value);
            let incarnation = incarnation.map_err(|error| fault::decode(operation, &error))?;
            known.floor = known.floor.max(floor_of(incarnation));
        }
        known.incarnation_at = found.map(|found| found.revision);
        known.is_sure = true;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The incarnation in the high bits.
pub fn floor_of(incarnation: Incarnation) -> FenceEpoch {
    let floor = u64::from(incarnation.number) << FENCE_BITS;
    FenceEpoch::from_raw(floor).unwrap_or(FenceEpoch::INITIAL)
}
