//! From the text of an id to the number of its shard. Objects live where these functions say: no
//! bit may ever change.

use shardwright_contracts::hash::{avalanched, scaled};

/// How ids become shards.
///
/// The name and the number of shards are part of the cluster's record; see
/// [`Sharding::check_join`](crate::Sharding::check_join).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ShardHash {
    /// FNV-1a of 32 bits, modulo the number of shards: what existing clusters have.
    ///
    /// Its lowest bit is the parity of the lowest bits of all bytes, so ids that follow a pattern
    /// may leave half of the shards empty.
    #[default]
    Fnv1a32,
    /// FNV-1a of 64 bits with every bit of the result made to depend on every bit before, scaled
    /// to the number of shards by its high bits: the better choice for a new cluster.
    Avalanche64,
}

impl ShardHash {
    /// Every hash there is.
    pub const ALL: [Self; 2] = [Self::Fnv1a32, Self::Avalanche64];

    /// The name under which a cluster stores it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fnv1a32 => "fnv1a32",
            Self::Avalanche64 => "avalanche64",
        }
    }

    /// The hash of that name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.name() == name)
    }

    /// The place of `bytes` below `count`, which is not zero.
    #[inline]
    pub(crate) fn place(self, bytes: &[u8], count: u32) -> u32 {
        match self {
            Self::Fnv1a32 => fnv1a_32(bytes) % count,
            Self::Avalanche64 => scaled(avalanched(bytes), count),
        }
    }
}

#[inline]
fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", 7_621, 5)]
    #[case("a", 2_348, 44)]
    #[case("foobar", 6_504, 40)]
    #[case("user-12345", 1_392, 48)]
    #[case("session-abc", 6_346, 10)]
    fn existing_ids_keep_their_shard(#[case] id: &str, #[case] of_8192: u32, #[case] of_64: u32) {
        let place = |count| ShardHash::Fnv1a32.place(id.as_bytes(), count);
        assert_eq!((place(8_192), place(64)), (of_8192, of_64));
    }

    /// Computed apart, from the published definitions of the two functions.
    #[rstest]
    #[case("", 7_674, 59, 936)]
    #[case("a", 4_180, 32, 510)]
    #[case("foobar", 1_412, 11, 172)]
    #[case("user-12345", 6_028, 47, 735)]
    #[case("session-abc", 6_113, 47, 746)]
    fn avalanched_ids_never_change_their_shard(
        #[case] id: &str,
        #[case] of_8192: u32,
        #[case] of_64: u32,
        #[case] of_1000: u32,
    ) {
        let place = |count| ShardHash::Avalanche64.place(id.as_bytes(), count);
        assert_eq!((place(8_192), place(64), place(1_000)), (of_8192, of_64, of_1000));
    }

    #[test]
    fn one_changed_bit_changes_half_the_bits_of_the_avalanched_hash() {
        for bit in 0..80 {
            let changed: u32 = (0..256_u32)
                .map(|n| {
                    let id = format!("object-{n:03}").into_bytes();
                    let mut other = id.clone();
                    other[bit / 8] ^= 1 << (bit % 8);
                    (avalanched(&id) ^ avalanched(&other)).count_ones()
                })
                .sum();
            let mean = f64::from(changed) / 256.0;
            assert!((mean - 32.0).abs() < 2.0, "bit {bit}: {mean}");
        }
    }

    #[test]
    fn ids_with_a_pattern_reach_all_shards_only_when_avalanched() {
        let reached = |hash: ShardHash| {
            let ids = (0..10_000).map(|n| format!("x{n}{n}"));
            let places = ids.map(|id| hash.place(id.as_bytes(), 64));
            places.collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!(reached(ShardHash::Fnv1a32), 32);
        assert_eq!(reached(ShardHash::Avalanche64), 64);
    }

    #[test]
    fn avalanched_ids_are_spread_as_by_chance() {
        for count in [5_u32, 64, 100, 626, 1_000] {
            let mut filled = vec![0_f64; count as usize];
            let ids = u64::from(count) * 100;
            for n in 0..ids {
                let place = ShardHash::Avalanche64.place(n.to_string().as_bytes(), count);
                filled[place as usize] += 1.0;
            }
            let chi_square: f64 = filled.iter().map(|n| (n - 100.0).powi(2) / 100.0).sum();
            let freedom = f64::from(count) - 1.0;
            let limit = freedom + 5.0 * (2.0 * freedom).sqrt();
            assert!(chi_square < limit, "{count} shards: {chi_square} of {limit}");
        }
    }

    #[test]
    fn scaling_reaches_the_first_and_the_last_shard_and_none_beyond() {
        for count in [1, 2, 3, 1_000, 1 << 24] {
            assert_eq!((scaled(0, count), scaled(u64::MAX, count)), (0, count - 1));
        }
    }

    #[test]
    fn names_find_their_hash() {
        for hash in ShardHash::ALL {
            assert_eq!(ShardHash::from_name(hash.name()), Some(hash));
        }
        assert_eq!(ShardHash::from_name("md5"), None);
    }
}
