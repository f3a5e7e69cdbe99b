//! The hashes that place entities. Stored data lies where they put it: no bit may ever change.

/// FNV-1a, 64 bits, over the eight bytes of `value` from the least significant on.
#[inline]
pub(super) fn fnv1a_64(value: u64) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;

    value
        .to_le_bytes()
        .into_iter()
        .fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// FNV-1a with every bit of the result made to depend on every bit before.
///
/// Alone, FNV-1a leaves patterns: modulo some numbers of shards (626, say) it puts more than half
/// too many sequential ids on one of them. The last step of MurmurHash3 takes the patterns away.
#[inline]
pub(super) fn avalanched(value: u64) -> u64 {
    let mut hash = fnv1a_64(value);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Scales a hash that is spread over all 64-bit numbers down to `0..count`.
///
/// This looks at the high bits, which [`avalanched`] makes as good as any, and takes one
/// multiplication where a remainder would take a division.
#[inline]
pub(super) fn scaled(hash: u64, count: u16) -> u64 {
    ((u128::from(hash) * u128::from(count)) >> u64::BITS) as u64
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 0xa8c7_f832_281a_39c5)]
    #[case(1, 0x89cd_3129_1d2a_efa4)]
    #[case(42, 0xff3a_dd6b_3789_daef)]
    #[case(1_000, 0xad63_2382_5fa7_66dc)]
    #[case(1 << 32, 0x08cd_4c29_d1e4_7d34)]
    #[case(u64::MAX - 1, 0xfc1a_3522_5397_861c)]
    #[case(u64::MAX, 0x8cf5_1a8b_fca3_883d)]
    fn hashes_are_the_published_fnv1a(#[case] id: u64, #[case] hash: u64) {
        assert_eq!(fnv1a_64(id), hash);
    }

    /// Computed apart, from the published definitions of the two functions.
    #[rstest]
    #[case(0, 0x7bd3_144f_29c0_cc9e)]
    #[case(1, 0x4a3a_3a4b_a652_3826)]
    #[case(42, 0xa624_5a5d_cf27_8758)]
    #[case(u64::MAX, 0x6a92_c022_8678_c02e)]
    fn avalanched_hashes_never_change(#[case] id: u64, #[case] hash: u64) {
        assert_eq!(avalanched(id), hash);
    }

    #[test]
    fn one_changed_bit_changes_half_the_bits_of_the_hash() {
        for bit in 0..64 {
            let changed: u32 = (0..256_u64)
                .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .map(|id| (avalanched(id) ^ avalanched(id ^ (1 << bit))).count_ones())
                .sum();
            let mean = f64::from(changed) / 256.0;
            assert!((mean - 32.0).abs() < 1.5, "bit {bit}: {mean}");
        }
    }

    #[test]
    fn scaling_reaches_every_number_below_the_count_and_no_other() {
        for count in [1, 2, 3, 1_000, u16::MAX] {
            let wide = u64::from(count);
            assert_eq!((scaled(0, count), scaled(u64::MAX, count)), (0, wide - 1));
            for number in 0..wide {
                // The first hash of each share, and the last one of the share before.
                let first = ((u128::from(number) << 64).div_ceil(u128::from(count))) as u64;
                assert_eq!(scaled(first, count), number);
                assert_eq!(scaled(first.wrapping_sub(1), count), (number + wide - 1) % wide);
            }
        }
    }
}
