//! The fuzz targets' properties on generated input, checked in every test run.

use proptest::prelude::*;
use shardwright_contracts::limits::MAX_KEY_SIZE;

use crate::checks;

/// Bytes that often look like hints.
fn hint_like() -> impl Strategy<Value = Vec<u8>> {
    let tail = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        (0..4_u8, tail.clone()).prop_map(|(tag, tail)| [vec![tag], tail].concat()),
        (0..45_u32, tail)
            .prop_map(|(len, tail)| { [&[1][..], &len.to_be_bytes(), &tail].concat() }),
        (any::<[u64; 3]>()).prop_map(|fields| {
            [vec![2], fields.iter().flat_map(|field| field.to_be_bytes()).collect()].concat()
        }),
    ]
}

/// An envelope around hint-like bytes, with a mostly correct length.
fn metadata_like() -> impl Strategy<Value = Vec<u8>> {
    let off = prop_oneof![3 => Just(0_i32), 1 => -3..4];
    (hint_like(), off, prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(hint, off, extra)| {
        let len = (hint.len() as u32).saturating_add_signed(off);
        [&len.to_be_bytes()[..], &hint, &extra].concat()
    })
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    let edge = prop::sample::select(vec![0, 1, 0x7f, 0x80, 0xfe, 0xff]);
    prop_oneof![
        4 => prop::collection::vec(edge.clone(), 0..5),
        3 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (edge, MAX_KEY_SIZE - 1..MAX_KEY_SIZE + 2, prop::collection::vec(any::<u8>(), 0..9))
            .prop_map(|(fill, len, tail)| {
                let mut key = vec![fill; len];
                key[len - tail.len()..].copy_from_slice(&tail);
                key
            }),
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_a_hint_or_an_error(data in prop_oneof![hint_like(), metadata_like()]) {
        checks::wire::hint(&data);
    }

    #[test]
    fn any_bytes_are_metadata_or_an_error(data in prop_oneof![metadata_like(), hint_like()]) {
        checks::wire::metadata(&data);
    }

    #[test]
    fn any_bytes_are_a_composite_or_an_error(
        key in prop::collection::vec(prop::sample::select(vec![0, 1, 2, 0xff]), 0..12),
        long in keys(),
    ) {
        checks::composite::composite(&key);
        checks::composite::composite(&long);
        checks::composite::composite(&[&long[..], &[0, 1]].concat());
    }

    #[test]
    fn key_arithmetic_agrees_with_big_integers(a in keys(), b in keys()) {
        checks::arithmetic::against_big_integers(&a, &b);
    }

    /// Keys with a common prefix, like neighbours in a real keyspace.
    #[test]
    fn key_arithmetic_agrees_with_big_integers_on_relatives(
        shared in prop::collection::vec(any::<u8>(), 0..20), a in keys(), b in keys(),
    ) {
        let relative = |tail: Vec<u8>| [&shared[..], &tail].concat();
        checks::arithmetic::against_big_integers(&relative(a), &relative(b));
    }
}
