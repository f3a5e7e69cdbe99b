use std::fmt;
use std::num::NonZeroU32;

use shardwright_contracts::ShardId;
use shardwright_contracts::hash::{avalanched, scaled};

use crate::limits::{DEFAULT_NUM_SHARDS, MAX_NUM_SHARDS};
use crate::object_id::{ObjectIdRef, ObjectLocation};

/// The number of shards of a cluster. It is at least one and never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardCount(NonZeroU32);

/// The number of shards is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cluster has 1 to {MAX_NUM_SHARDS} shards, not {0}")]
pub struct ShardCountError(pub u32);

impl ShardCount {
    /// The default number of shards.
    pub const DEFAULT: Self = match NonZeroU32::new(DEFAULT_NUM_SHARDS) {
        Some(count) => Self(count),
        None => Self(NonZeroU32::MIN),
    };

    /// Checks a number of shards.
    pub const fn try_new(count: u32) -> Result<Self, ShardCountError> {
        match NonZeroU32::new(count) {
            Some(nonzero) if count <= MAX_NUM_SHARDS => Ok(Self(nonzero)),
            _ => Err(ShardCountError(count)),
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Every shard, in order.
    pub fn shards(self) -> impl DoubleEndedIterator<Item = ShardId> + ExactSizeIterator {
        (0..self.get()).map(|number| ShardId::from_raw(number.into()))
    }

    /// The index of a shard, if the cluster has it.
    pub(crate) fn index(self, shard: ShardId) -> Result<usize, ShardOutOfRange> {
        if shard.as_raw() < u64::from(self.get()) {
            Ok(shard.as_raw() as usize)
        } else {
            Err(ShardOutOfRange { shard: shard.as_raw(), num_shards: self.get() })
        }
    }
}

impl Default for ShardCount {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for ShardCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The shard does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no shard {shard}, the cluster has {num_shards}")]
pub struct ShardOutOfRange {
    /// The requested shard.
    pub shard: u64,
    /// The number of shards.
    pub num_shards: u32,
}

/// The mapping from ids to shards. It is stored when the cluster is created and never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharding {
    /// The hash of ids.
    pub hash: ShardHash,
    /// The number of shards.
    pub num_shards: ShardCount,
}

/// Why a process may not join: it maps ids differently, so it would look for objects in the wrong
/// shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefused {
    /// It uses another hash.
    #[error("the cluster hashes ids by {}, this process by {}", .cluster.name(), .ours.name())]
    Hash {
        /// The cluster's.
        cluster: ShardHash,
        /// The process's.
        ours: ShardHash,
    },
    /// It uses another number of shards.
    #[error("the cluster has {cluster} shards, this process expects {ours}")]
    NumShards {
        /// The cluster's.
        cluster: ShardCount,
        /// The process's.
        ours: ShardCount,
    },
}

impl Sharding {
    /// The shard of an object, or `None` if its id names a node.
    #[inline]
    pub fn shard_of(self, id: ObjectIdRef<'_>) -> Result<Option<ShardId>, ShardOutOfRange> {
        match id.location() {
            ObjectLocation::Hashed => Ok(Some(self.hashed(id.as_str()))),
            ObjectLocation::Shard(shard) => self.num_shards.index(shard).map(|_| Some(shard)),
            ObjectLocation::Node(_) => Ok(None),
        }
    }

    /// The shard of the hash of a text, whatever its form.
    #[must_use]
    #[inline]
    pub fn hashed(self, text: &str) -> ShardId {
        ShardId::from_raw(self.hash.place(text.as_bytes(), self.num_shards.get()).into())
    }

    /// Checks whether a process with the mapping `ours` may join the cluster.
    pub fn check_join(self, ours: Self) -> Result<(), JoinRefused> {
        if self.hash != ours.hash {
            return Err(JoinRefused::Hash { cluster: self.hash, ours: ours.hash });
        }
        if self.num_shards != ours.num_shards {
            let (cluster, ours) = (self.num_shards, ours.num_shards);
            return Err(JoinRefused::NumShards { cluster, ours });
        }
        Ok(())
    }
}

/// A hash of ids. Objects are placed by it, so its results never change.
///
/// The name and the number of shards are part of the cluster's record; see
/// [`Sharding::check_join`](crate::Sharding::check_join).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ShardHash {
    /// 32-bit FNV-1a modulo the number of shards, as in existing clusters.
    ///
    /// Its lowest bit is the parity of the lowest bits of all bytes, so ids that follow a pattern
    /// may leave half of the shards empty.
    #[default]
    Fnv1a32,
    /// 64-bit FNV-1a with an avalanche step, scaled to the number of shards by its high bits. Use
    /// it for new clusters.
    Avalanche64,
}

impl ShardHash {
    /// Every hash.
    pub const ALL: [Self; 2] = [Self::Fnv1a32, Self::Avalanche64];

    /// Its stored name.
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

    /// The shard of `bytes` below `count`, which is not zero.
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

    fn of(count: u32) -> Sharding {
        let num_shards = ShardCount::try_new(count).unwrap();
        Sharding { num_shards, ..Sharding::default() }
    }

    fn shard(sharding: Sharding, id: &str) -> Result<Option<u64>, ShardOutOfRange> {
        let found = sharding.shard_of(ObjectIdRef::parse(id).unwrap())?;
        Ok(found.map(ShardId::as_raw))
    }

    #[test]
    fn shard_count_is_bounded() {
        assert_eq!(ShardCount::try_new(0), Err(ShardCountError(0)));
        assert!(ShardCount::try_new(1).is_ok() && ShardCount::try_new(MAX_NUM_SHARDS).is_ok());
        assert!(ShardCount::try_new(MAX_NUM_SHARDS + 1).is_err());
        assert_eq!(ShardCount::DEFAULT.get(), 8_192);
    }

    #[test]
    fn ids_map_to_shards_by_their_form() {
        assert_eq!(shard(of(8_192), "user-12345"), Ok(Some(1_392)));
        assert_eq!(shard(of(64), "shard#5/object-123"), Ok(Some(5)));
        assert_eq!(shard(of(64), "localhost:7001/client-123"), Ok(None));
    }

    #[test]
    fn named_shard_must_exist() {
        assert_eq!(shard(of(64), "shard#63/x"), Ok(Some(63)));
        let error = ShardOutOfRange { shard: 64, num_shards: 64 };
        assert_eq!(shard(of(64), "shard#64/x"), Err(error));
    }

    #[test]
    fn process_with_another_mapping_may_not_join() {
        let cluster = of(64);
        assert_eq!(cluster.check_join(cluster), Ok(()));
        let other_hash = Sharding { hash: ShardHash::Avalanche64, ..cluster };
        assert!(matches!(cluster.check_join(other_hash), Err(JoinRefused::Hash { .. })));
        assert_eq!(
            cluster.check_join(of(65)).unwrap_err().to_string(),
            "the cluster has 64 shards, this process expects 65"
        );
    }

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

    /// Computed separately from the published definitions of both functions.
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
    fn avalanche_flips_half_the_bits() {
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
    fn patterned_ids_need_the_avalanche_to_reach_all_shards() {
        let reached = |hash: ShardHash| {
            let ids = (0..10_000).map(|n| format!("x{n}{n}"));
            let places = ids.map(|id| hash.place(id.as_bytes(), 64));
            places.collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!(reached(ShardHash::Fnv1a32), 32);
        assert_eq!(reached(ShardHash::Avalanche64), 64);
    }

    #[test]
    fn avalanched_ids_are_spread_uniformly() {
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
    fn scaling_covers_exactly_all_shards() {
        for count in [1, 2, 3, 1_000, 1 << 24] {
            assert_eq!((scaled(0, count), scaled(u64::MAX, count)), (0, count - 1));
        }
    }

    #[test]
    fn hashes_are_found_by_name() {
        for hash in ShardHash::ALL {
            assert_eq!(ShardHash::from_name(hash.name()), Some(hash));
        }
        assert_eq!(ShardHash::from_name("md5"), None);
    }
}
