//! The next key, the end of a prefix, and the point halfway between two keys.

use super::*;

/// Short keys of few bytes, so that neighbours, prefixes and carries are frequent.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::collection::vec(prop::sample::select(vec![0, 1, 0x7f, 0x80, 0xfe, 0xff]), 0..6),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

/// Keys around the maximum length, mostly of one byte.
fn long_keys() -> impl Strategy<Value = Vec<u8>> {
    let fill = prop::sample::select(vec![0, 1, 0xfe, 0xff]);
    (MAX_KEY_SIZE - 2..=MAX_KEY_SIZE + 2, fill, keys()).prop_map(|(len, fill, tail)| {
        let mut key = vec![fill; len];
        let from = len - tail.len();
        key[from..].copy_from_slice(&tail);
        key
    })
}

fn successor_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    prefix_successor(prefix, &mut KeyBuf::new()).map(<[u8]>::to_vec)
}

fn successor_of_key(key: &[u8]) -> Option<Vec<u8>> {
    key_successor(key, &mut KeyBuf::new()).map(<[u8]>::to_vec)
}

fn midpoint(a: &[u8], b: &[u8]) -> Option<Vec<u8>> {
    let mut out = KeyBuf::new();
    out.copy_from_slice(b"what was here before");
    let found = byte_midpoint(a, b, &mut out).map(<[u8]>::to_vec);
    assert_eq!(out.as_bytes(), found.as_deref().unwrap_or_default());
    found
}

#[test]
fn prefix_successor_basic() {
    for (prefix, expected) in [
        (&b""[..], None),
        (b"\xff", None),
        (b"\xff\xff\xff", None),
        (b"a", Some(&b"b"[..])),
        (b"\0", Some(b"\x01")),
        (b"a\xff", Some(b"b")),
        (b"a\xfe\xff\xff", Some(b"a\xff")),
        (b"\xff\0\xff", Some(b"\xff\x01")),
    ] {
        assert_eq!(successor_of_prefix(prefix).as_deref(), expected, "{prefix:?}");
    }
    assert_eq!(successor_of_prefix(&[1; MAX_KEY_SIZE]).unwrap().len(), MAX_KEY_SIZE);
    assert_eq!(successor_of_prefix(&[1; MAX_KEY_SIZE + 1]), None);
}

#[test]
fn missing_successor_leaves_the_buffer_unchanged() {
    let mut buf = KeyBuf::new();
    buf.copy_from_slice(b"kept");
    for prefix in [&b""[..], b"\xff", &[1; MAX_KEY_SIZE + 1]] {
        assert_eq!(prefix_successor(prefix, &mut buf), None);
    }
    for key in [&[0xff; MAX_KEY_SIZE][..], &[1; MAX_KEY_SIZE + 1]] {
        assert_eq!(key_successor(key, &mut buf), None);
    }
    assert_eq!(buf.as_bytes(), b"kept");
}

#[test]
fn byte_midpoint_output_respects_max_key_size() {
    let low = vec![0x10; MAX_KEY_SIZE];
    let mut high = low.clone();
    high[MAX_KEY_SIZE - 1] += 1;
    assert_eq!(midpoint(&low, &high), None, "keys between these two would be too long");
    high[MAX_KEY_SIZE - 1] += 1;
    assert_eq!(midpoint(&low, &high).unwrap().len(), MAX_KEY_SIZE);

    // All bytes of the maximum length are in use, and the sum carries out of the first one.
    let (low, high) = (vec![0xfe; MAX_KEY_SIZE], vec![0xff; MAX_KEY_SIZE]);
    let middle = midpoint(&low, &high).unwrap();
    assert_eq!(middle.len(), MAX_KEY_SIZE);
    assert!(low < middle && middle < high);
}

#[test]
fn byte_midpoint_rejects_oversized_inputs() {
    let long = vec![0x10; MAX_KEY_SIZE + 1];
    assert_eq!(midpoint(&long, b"\xff"), None);
    assert_eq!(midpoint(b"\x01", &long), None);
    assert!(midpoint(&long[1..], b"\xff").is_some());
    assert!(midpoint(b"\x01", &long[1..]).is_some());
}

#[rstest]
#[case::equal(b"a", b"a", None)]
#[case::inverted(b"b", b"a", None)]
#[case::halfway(b"a", b"c", Some(&b"b"[..]))]
#[case::neighbours_get_a_longer_key(b"a", b"b", Some(&b"a\0"[..]))]
#[case::nothing_between_a_key_and_its_successor(b"a", b"a\0", None)]
#[case::only_zeros_between(b"a", b"a\0\0", Some(&b"a\0"[..]))]
#[case::from_the_start(b"", b"\x02", Some(&b"\x01"[..]))]
#[case::different_lengths(b"a", b"b\x80", Some(&b"a\xc0"[..]))]
fn byte_midpoint_edge_cases(#[case] a: &[u8], #[case] b: &[u8], #[case] expected: Option<&[u8]>) {
    assert_eq!(midpoint(a, b).as_deref(), expected);
}

#[test]
fn byte_midpoint_carry_regression() {
    // Sums that carry through every byte and word, with lengths on both sides of a word.
    for len in 1..=33 {
        let mut low = vec![0xff; len];
        low[0] = 0x7f;
        let high = [vec![0x80], vec![0xff; len - 1]].concat();
        let middle = midpoint(&low, &high).unwrap();
        if len == 1 {
            assert_eq!(middle, b"\x7f\0");
        } else {
            assert_eq!(middle, [vec![0x80, 0x7f], vec![0xff; len - 2]].concat());
        }
    }
    assert_eq!(midpoint(b"\xff\xff", b"\xff\xff\x02").unwrap(), b"\xff\xff\x01");
    assert_eq!(midpoint(b"\xfe\xff", b"\xff\x01").unwrap(), b"\xff\x00");
}

#[test]
fn key_successor_of_the_empty_key_is_the_first_key() {
    assert_eq!(successor_of_key(b"").unwrap(), b"\0");
}

proptest! {
    #[test]
    fn prefix_successor_is_strictly_greater(prefix in prop_oneof![keys(), long_keys()]) {
        if let Some(successor) = successor_of_prefix(&prefix) {
            prop_assert!(successor > prefix);
        }
    }

    #[test]
    fn prefix_successor_is_upper_bound_for_prefixed_keys(prefix in keys(), tail in keys()) {
        if let Some(successor) = successor_of_prefix(&prefix) {
            let prefixed = [&prefix[..], &tail].concat();
            prop_assert!(prefixed < successor);
            // It is the least one: its own prefix of the same length is the next after `prefix`.
            prop_assert!(!successor.starts_with(&prefix));
            prop_assert_ne!(successor.last(), Some(&0));
            let mut before = successor.clone();
            *before.last_mut().unwrap() -= 1;
            prop_assert!(prefix.starts_with(&before));
            prop_assert!(prefix[before.len()..].iter().all(|byte| *byte == u8::MAX));
        }
    }

    #[test]
    fn key_successor_is_strictly_greater(key in prop_oneof![keys(), long_keys()]) {
        if let Some(successor) = successor_of_key(&key) {
            prop_assert!(successor > key);
            prop_assert!(successor.len() <= MAX_KEY_SIZE);
        }
    }

    #[test]
    fn key_successor_none_only_when_expected(key in prop_oneof![keys(), long_keys()]) {
        let last = key.len() == MAX_KEY_SIZE && key.iter().all(|byte| *byte == u8::MAX);
        prop_assert_eq!(successor_of_key(&key).is_none(), key.len() > MAX_KEY_SIZE || last);
    }

    #[test]
    fn key_successor_appends_zero_when_below_max(key in prop_oneof![keys(), long_keys()]) {
        prop_assume!(key.len() < MAX_KEY_SIZE);
        prop_assert_eq!(successor_of_key(&key).unwrap(), [&key[..], &[0]].concat());
    }

    #[test]
    fn key_successor_delegates_to_prefix_successor_at_max(tail in keys(), fill in any::<u8>()) {
        let key = [vec![fill; MAX_KEY_SIZE - tail.len()], tail].concat();
        prop_assert_eq!(successor_of_key(&key), successor_of_prefix(&key));
    }

    #[test]
    fn byte_midpoint_is_strictly_between_when_present(a in keys(), b in keys()) {
        match midpoint(&a, &b) {
            Some(middle) => prop_assert!(a < middle && middle < b),
            None => prop_assert!(a >= b || successor_of_key(&a).unwrap() == b),
        }
    }

    #[test]
    fn byte_midpoint_different_lengths_strictly_between(
        a in keys(), tail in prop::collection::vec(any::<u8>(), 1..20), long in long_keys(),
    ) {
        for b in [[&a[..], &tail].concat(), long] {
            let (low, high) = if a < b { (&a, &b) } else { (&b, &a) };
            if let Some(middle) = midpoint(low, high) {
                prop_assert!(low < &middle && &middle < high);
                prop_assert!(middle.len() <= MAX_KEY_SIZE);
            }
        }
    }
}
