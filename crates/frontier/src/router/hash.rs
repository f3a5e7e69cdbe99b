//! The hashes that place entities, over the eight bytes of an id from the least significant on.

use shardwright_contracts::hash;

/// FNV-1a, 64 bits.
#[inline]
pub(super) fn fnv1a_64(id: u64) -> u64 {
    hash::fnv1a_64(&id.to_le_bytes())
}

/// FNV-1a without the patterns that it leaves.
#[inline]
pub(super) fn avalanched(id: u64) -> u64 {
    hash::avalanched(&id.to_le_bytes())
}

/// Scales a hash that is spread over all 64-bit numbers down to `0..count`.
#[inline]
pub(super) fn scaled(hash: u64, count: u16) -> u64 {
    hash::scaled(hash, count.into()).into()
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
