//! Tests that the records of every protocol pass. Each protocol passes its examples.

use std::fmt::{Debug, Display};

use bytes::Bytes;
use proptest::prelude::{TestCaseError, prop_assert_eq};
use proptest::sample::Index;
use shardwright_engine::codec::{DecodeError, DecodeProblem, Record, RecordKind};

use crate::checks::record_checks::AsKind;

/// Encoded records with their kinds.
pub(crate) type Examples = Vec<(RecordKind, Bytes)>;

pub(crate) fn encoded<R: Record>(record: &R) -> (RecordKind, Bytes) {
    (R::KIND, record.encode())
}

/// The encoding of a record consists of a tag and these fields, in hex.
pub(crate) fn golden<R: Record + Debug + PartialEq>(record: &R, tag: &str, fields: &[&str]) {
    let encoded = record.encode();
    let hex: String = encoded.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected: String = [tag, &fields.concat()].concat().replace(' ', "");
    assert_eq!(hex, expected, "{record:?}");
    assert_eq!(R::decode(&encoded).as_ref(), Ok(record));
    assert_eq!(RecordKind::of(&encoded), Some(R::KIND));
}

/// Decoding an encoded record returns the record.
pub(crate) fn round_trips<R: Record + Debug + PartialEq>(record: &R) -> Result<(), TestCaseError> {
    let decoded = R::decode(&record.encode());
    prop_assert_eq!(decoded.as_ref(), Ok(record));
    Ok(())
}

/// Replaces bytes of a value.
pub(crate) fn damage(value: &[u8], bytes: &[(Index, u8)]) -> Vec<u8> {
    let mut damaged = value.to_vec();
    for (index, byte) in bytes {
        *index.get_mut(&mut damaged) = *byte;
    }
    damaged
}

/// The problem, and its offset, of a record in which some bytes are replaced.
pub(crate) fn broken<R: Record + Debug>(
    record: &R,
    at: usize,
    bytes: &[u8],
) -> (DecodeProblem, usize) {
    let mut value = record.encode().to_vec();
    value[at..at + bytes.len()].copy_from_slice(bytes);
    let DecodeError { kind, problem, offset } = R::decode(&value).unwrap_err();
    assert_eq!(kind, R::KIND);
    (problem, offset)
}

/// The problem of a value that its protocol rejects with `error`.
pub(crate) fn invalid(error: impl Display) -> DecodeProblem {
    DecodeProblem::Invalid(error.to_string().into())
}

/// The examples decode.
pub(crate) fn accept(as_kind: AsKind, examples: Examples) {
    for (kind, value) in examples {
        assert_eq!(as_kind(kind, &value), Some(true), "{kind}");
    }
}

/// A record that is cut short or followed by a byte does not decode.
pub(crate) fn reject_other_lengths(as_kind: AsKind, examples: Examples) {
    for (kind, value) in examples {
        for cut in 0..value.len() {
            assert_eq!(as_kind(kind, &value[..cut]), Some(false), "{kind} cut to {cut}");
        }
        for byte in 0..=u8::MAX {
            let longer = [&value[..], &[byte]].concat();
            assert_eq!(as_kind(kind, &longer), Some(false), "{kind} followed by {byte}");
        }
    }
}

/// A record decodes as its own kind only.
pub(crate) fn reject_other_kinds(as_kind: AsKind, examples: Examples) {
    for (kind, value) in examples {
        for other in RecordKind::ALL {
            let decoded = as_kind(*other, &value);
            assert!(decoded.is_none_or(|decoded| decoded == (*other == kind)), "{other}");
        }
    }
}

/// A record with one byte replaced is another record or an error.
pub(crate) fn replace_each_byte(as_kind: AsKind, examples: Examples) {
    for (kind, value) in examples {
        assert_eq!(as_kind(kind, &value), Some(true), "{kind}");
        for index in 0..value.len() {
            let mut damaged = value.to_vec();
            for byte in 0..=u8::MAX {
                damaged[index] = byte;
                as_kind(kind, &damaged);
            }
        }
    }
}

/// Decoding allocates about as many bytes as the value has. An op log reserves a few more.
pub(crate) fn bound_decoding_memory(as_kind: AsKind, examples: Examples) {
    let bounded = |kind: RecordKind, value: &[u8]| {
        let mut accepted = false;
        let counted = allocation_counter::measure(|| {
            accepted = as_kind(kind, value) == Some(true);
        });
        // An accepted value is encoded and decoded again, and all copies live at once.
        let copies = if accepted { 4 } else { 2 };
        let most = copies * (value.len() as u64 + 512);
        assert!(counted.bytes_max <= most, "{kind}: {} for {}", counted.bytes_max, value.len());
    };
    for (kind, value) in examples {
        bounded(kind, &value);
        // Any four bytes may be a length that claims far more than the value has.
        for at in 2..value.len().min(512).saturating_sub(4) {
            for length in [u32::MAX, u32::MAX - 1, 1 << 31, 1 << 20, 9_999] {
                let mut damaged = value[..value.len().min(512)].to_vec();
                damaged[at..at + 4].copy_from_slice(&length.to_le_bytes());
                bounded(kind, &damaged);
            }
        }
    }
}
