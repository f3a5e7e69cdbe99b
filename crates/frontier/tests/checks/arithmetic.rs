use num_bigint::BigUint;
use shardwright_contracts::limits::MAX_KEY_SIZE;
use shardwright_frontier::{KeyBuf, byte_midpoint, key_successor, prefix_successor};

/// Key arithmetic agrees with big integers.
pub(crate) fn against_big_integers(a: &[u8], b: &[u8]) {
    let mut buf = KeyBuf::new();
    for key in [a, b] {
        assert_eq!(prefix_successor(key, &mut buf), model_prefix_successor(key).as_deref());
        assert_eq!(key_successor(key, &mut buf), model_key_successor(key).as_deref());
    }
    assert_eq!(byte_midpoint(a, b, &mut buf), model_midpoint(a, b).as_deref());
    assert_eq!(byte_midpoint(b, a, &mut buf), model_midpoint(b, a).as_deref());
}

/// Reads the prefix as a number and increments it. A number that exceeds its width has no
/// successor, and trailing zeros are dropped.
fn model_prefix_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    if prefix.len() > MAX_KEY_SIZE {
        return None;
    }
    let next = BigUint::from_bytes_be(prefix) + 1_u32;
    let mut bytes = at_width(&next, prefix.len())?;
    // The increment turned trailing 0xFF bytes into zeros.
    let trailing = prefix.iter().rev().take_while(|byte| **byte == u8::MAX).count();
    bytes.truncate(bytes.len() - trailing);
    Some(bytes)
}

fn model_key_successor(key: &[u8]) -> Option<Vec<u8>> {
    if key.len() < MAX_KEY_SIZE {
        return Some([key, &[0]].concat());
    }
    model_prefix_successor(key)
}

/// Adds the keys at one width and halves the sum. The result is the first of these that lies
/// between: the quotient without the carry's byte, the one with it, the key next to `a`.
fn model_midpoint(a: &[u8], b: &[u8]) -> Option<Vec<u8>> {
    if a >= b || a.len() > MAX_KEY_SIZE || b.len() > MAX_KEY_SIZE {
        return None;
    }
    let width = a.len().max(b.len());
    let padded = |key: &[u8]| BigUint::from_bytes_be(key) << (8 * (width - key.len()));
    let quotient = (padded(a) + padded(b)) >> 1_u32;
    let with_carry = at_width(&quotient, width + 1)?;
    [with_carry[1..].to_vec(), with_carry]
        .into_iter()
        .filter(|candidate| candidate.len() <= MAX_KEY_SIZE)
        .chain(model_key_successor(a))
        .find(|candidate| a < &candidate[..] && &candidate[..] < b)
}

fn at_width(number: &BigUint, width: usize) -> Option<Vec<u8>> {
    let digits = if *number == BigUint::ZERO { Vec::new() } else { number.to_bytes_be() };
    let zeros = width.checked_sub(digits.len())?;
    Some([vec![0; zeros], digits].concat())
}
