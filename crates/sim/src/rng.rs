//! Randomness from one seed.
//!
//! SplitMix64: a counter and a mixer, the same on every machine.

/// A stream of numbers that depends on its seed alone.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Starts a stream.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        // Seeds are small and close together. The multiplication spreads them over all states.
        Self { state: seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x632b_e59b_d9b4_e019) }
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or zero if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of the remainder is negligible for the odds of a world.
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// An index below `len`, or zero if `len` is zero.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True `permille` times in a thousand.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// A random item, if there is one.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// A random item, chosen by weight.
    pub fn weighted<T: Copy>(&mut self, items: &[(u64, T)]) -> Option<T> {
        let mut left = self.below(items.iter().map(|(weight, _)| weight).sum());
        for (weight, item) in items {
            if left < *weight {
                return Some(*item);
            }
            left -= weight;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_determines_the_stream() {
        let stream = |seed| {
            let mut rng = Rng::new(seed);
            [rng.next(), rng.next(), rng.next()]
        };
        assert_eq!(stream(7), stream(7));
        assert_ne!(stream(7), stream(8));
    }

    #[test]
    fn weights_are_odds() {
        let mut rng = Rng::new(1);
        let mut seen = [0; 3];
        for _ in 0..3_000 {
            seen[rng.weighted(&[(1, 0), (0, 1), (2, 2)]).unwrap()] += 1;
        }
        assert!(seen[1] == 0 && seen[0] > 800 && seen[2] > 1_800, "{seen:?}");
        assert_eq!(rng.weighted::<u8>(&[]), None);
        assert_eq!((rng.below(0), rng.between(5, 5)), (0, 5));
    }
}
