//! Keys made of parts, compared part by part.
//!
//! Parts may have any length, so each ends with a terminator that sorts below every continuation:
//! `00 01`. A zero byte inside a part is written as `00 FF`, which sorts above the terminator and
//! below `01`. A key sorts before its extensions by further parts.

use std::fmt;

use shardwright_contracts::Redacted;
use shardwright_contracts::limits::MAX_KEY_SIZE;

use super::{KeyBuf, KeyEncoding};

const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xFF;
const END_OF_PART: u8 = 0x01;

/// A key made of any number of byte strings.
///
/// Tuples of two to six keys encode the same way, with each element's encoding as a part. A key of
/// no parts is empty, which as a range bound means the end of the keyspace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompositeKey<'a>(pub &'a [&'a [u8]]);

impl KeyEncoding for CompositeKey<'_> {
    fn encode_into(&self, buf: &mut KeyBuf) {
        buf.clear();
        for part in self.0 {
            append_part(part, buf);
        }
    }
}

impl fmt::Debug for CompositeKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|part| Redacted(part))).finish()
    }
}

macro_rules! tuple_keys {
    ($(($($element:ident)+))+) => {$(
        impl<$($element: KeyEncoding),+> KeyEncoding for ($($element,)+) {
            fn encode_into(&self, buf: &mut KeyBuf) {
                #[expect(non_snake_case, reason = "one name per element serves type and value")]
                let ($($element,)+) = self;
                let mut part = KeyBuf::new();
                buf.clear();
                $(
                    part.clear();
                    $element.encode_into(&mut part);
                    append_part(part.as_bytes(), buf);
                )+
            }
        }
    )+};
}

tuple_keys! {
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
}

fn append_part(part: &[u8], buf: &mut KeyBuf) {
    let mut pieces = part.split(|byte| *byte == ESCAPE);
    // Even an empty part has one piece: the empty one.
    buf.extend_from_slice(pieces.next().unwrap_or_default());
    for piece in pieces {
        buf.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]);
        buf.extend_from_slice(piece);
    }
    buf.extend_from_slice(&[ESCAPE, END_OF_PART]);
}

/// Why a composite key is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompositeDecodeError {
    /// The bytes end within a part.
    #[error("the key ends within a part")]
    Unterminated,
    /// A zero byte is followed by an invalid byte.
    #[error("a zero byte is followed by {0:#04x}")]
    UnknownEscape(u8),
    /// A part exceeds the limit of keys.
    #[error("a part of {size} bytes exceeds {max}")]
    PartTooLarge {
        /// Its length.
        size: usize,
        /// The limit.
        max: usize,
    },
}

/// Decodes the first part of a composite key into `part` and returns the rest. After an error the
/// content of `part` is unspecified.
pub fn decode_composite_part<'k>(
    key: &'k [u8],
    part: &mut KeyBuf,
) -> Result<&'k [u8], CompositeDecodeError> {
    part.clear();
    let mut rest = key;
    loop {
        let plain_len = rest.iter().position(|byte| *byte == ESCAPE);
        let (plain, escape) = plain_len
            .and_then(|len| rest.split_at_checked(len))
            .ok_or(CompositeDecodeError::Unterminated)?;
        part.extend_from_slice(plain);
        match escape {
            [ESCAPE, ESCAPED_ZERO, after @ ..] => {
                part.extend_from_slice(&[ESCAPE]);
                rest = after;
            }
            [ESCAPE, END_OF_PART, after @ ..] => return complete(part, after),
            [ESCAPE, unknown, ..] => return Err(CompositeDecodeError::UnknownEscape(*unknown)),
            _ => return Err(CompositeDecodeError::Unterminated),
        }
    }
}

fn complete<'k>(part: &KeyBuf, rest: &'k [u8]) -> Result<&'k [u8], CompositeDecodeError> {
    let (size, max) = (part.written(), MAX_KEY_SIZE);
    if size > max {
        return Err(CompositeDecodeError::PartTooLarge { size, max });
    }
    Ok(rest)
}
