use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

/// Fingerprints of all visited worlds, each with that of its predecessor.
///
/// The map has parts, so that threads rarely contend for a lock.
pub(crate) struct Visited {
    parts: Vec<Mutex<Part>>,
}

type Part = HashMap<u64, u64, BuildHasherDefault<Passthrough>>;

const PARTS: usize = 256;

impl Visited {
    pub(crate) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| Mutex::default()).collect() }
    }

    /// Adds a world. Returns whether it is new.
    pub(crate) fn insert(&self, world: u64, from: u64) -> bool {
        self.with_part(world, |part| match part.entry(world) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(from);
                true
            }
        })
    }

    /// The predecessor of a world.
    pub(crate) fn origin(&self, world: u64) -> Option<u64> {
        self.with_part(world, |part| part.get(&world).copied())
    }

    fn with_part<T: Default>(&self, world: u64, act: impl FnOnce(&mut Part) -> T) -> T {
        // The map uses the low bits, the parts the high ones.
        let part = self.parts.get((world >> 56) as usize % PARTS);
        part.map(|part| act(&mut part.lock().unwrap_or_else(PoisonError::into_inner)))
            .unwrap_or_default()
    }
}

/// Passes a fingerprint through: it is already a hash.
#[derive(Default)]
pub(crate) struct Passthrough(u64);

impl Hasher for Passthrough {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, fingerprint: u64) {
        // The map also uses the highest bits, which all entries of a part share.
        self.0 = fingerprint.rotate_left(8);
    }
}
