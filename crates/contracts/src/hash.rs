//! Hashes that say where something belongs. What is stored lies where they put it: no bit may ever
//! change.

/// FNV-1a, 64 bits.
#[inline]
#[must_use]
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// FNV-1a with every bit of the result made to depend on every bit before.
///
/// Alone, FNV-1a leaves patterns: modulo some numbers of shards (626, say) it puts more than half
/// too many sequential ids on one of them. The last step of `MurmurHash3` takes the patterns away.
#[inline]
#[must_use]
pub fn avalanched(bytes: &[u8]) -> u64 {
    let mut hash = fnv1a_64(bytes);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Scales a hash that is spread over all 64-bit numbers down to `0..count`.
///
/// This looks at the high bits, which [`avalanched`] makes as good as any, and takes one
/// multiplication where a remainder would take a division.
#[inline]
#[must_use]
pub fn scaled(hash: u64, count: u32) -> u32 {
    ((u128::from(hash) * u128::from(count)) >> u64::BITS) as u32
}
