//! Numbers as eight bytes, and byte strings as themselves.
//!
//! Unsigned integers are big-endian. Signed ones have their sign bit flipped, which puts the
//! negative half first. Floating-point numbers are compared by magnitude within each sign, so the
//! bits of a negative one are all flipped and a positive one gets its sign bit set.
//!
//! To have one form per value, `-0.0` is encoded as `0.0`, and every NaN as one NaN that sorts
//! after infinity.

use super::{KeyBuf, KeyEncoding};

const SIGN: u64 = 1 << 63;
/// The one NaN that is encoded: positive, quiet, without payload. The standard library's constant
/// promises no particular bits, and these are stored.
const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;

impl KeyEncoding for u64 {
    fn encode_into(&self, buf: &mut KeyBuf) {
        buf.copy_from_slice(&self.to_be_bytes());
    }
}

impl KeyEncoding for i64 {
    fn encode_into(&self, buf: &mut KeyBuf) {
        (self.cast_unsigned() ^ SIGN).encode_into(buf);
    }
}

impl KeyEncoding for f64 {
    fn encode_into(&self, buf: &mut KeyBuf) {
        let canonical = match *self {
            nan if nan.is_nan() => f64::from_bits(NAN_BITS),
            0.0 => 0.0,
            number => number,
        };
        let bits = canonical.to_bits();
        let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
        ordered.encode_into(buf);
    }
}

/// The bytes as they are. An empty string is a fine part of a tuple; alone, as a range bound, it
/// means the end of the keyspace.
impl KeyEncoding for &[u8] {
    fn encode_into(&self, buf: &mut KeyBuf) {
        buf.copy_from_slice(self);
    }
}

/// The UTF-8 bytes as they are; see the encoding of `&[u8]` for the empty string.
impl KeyEncoding for &str {
    fn encode_into(&self, buf: &mut KeyBuf) {
        buf.copy_from_slice(self.as_bytes());
    }
}

/// Reads an encoded `u64`: eight bytes, any eight.
#[must_use]
pub fn decode_u64_key(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}

/// Reads an encoded `i64`: eight bytes, any eight.
#[must_use]
pub fn decode_i64_key(key: &[u8]) -> Option<i64> {
    decode_u64_key(key).map(|ordered| (ordered ^ SIGN).cast_signed())
}

/// Reads an encoded `f64`: eight bytes, any eight. Bytes that no encoding produces (such as those
/// of `-0.0`) still give the number that they spell.
#[must_use]
pub fn decode_f64_key(key: &[u8]) -> Option<f64> {
    let ordered = decode_u64_key(key)?;
    let bits = if ordered & SIGN == 0 { !ordered } else { ordered & !SIGN };
    Some(f64::from_bits(bits))
}
