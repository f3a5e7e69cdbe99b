/// FNV-1a, 64 bits, over the eight bytes of `value` from the least significant on.
///
/// Placement of stored data depends on every bit of this: it may never change.
#[inline]
pub(super) fn fnv1a_64(value: u64) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;

    value
        .to_le_bytes()
        .into_iter()
        .fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
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
}
