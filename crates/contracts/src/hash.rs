//! Hashes that assign ids to shards. Stored data depends on them, so their results never change.

/// FNV-1a, 64 bits.
#[inline]
#[must_use]
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// FNV-1a with a final avalanche step.
///
/// FNV-1a alone leaves patterns: modulo some numbers of shards (such as 626) it puts more than half
/// too many sequential ids on one shard. The last step of `MurmurHash3` removes the patterns.
#[inline]
#[must_use]
pub fn avalanched(bytes: &[u8]) -> u64 {
    let mut hash = fnv1a_64(bytes);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Scales a uniformly distributed 64-bit hash to `0..count`.
///
/// It uses the high bits, which [`avalanched`] mixes as well as the others, and one multiplication
/// instead of a division.
#[inline]
#[must_use]
pub fn scaled(hash: u64, count: u32) -> u32 {
    ((u128::from(hash) * u128::from(count)) >> u64::BITS) as u32
}
