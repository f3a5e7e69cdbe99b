//! The result line of an item.

use std::borrow::Cow;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Bytes as JSON: a string if they are UTF-8, base64 otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyText<'a> {
    /// UTF-8.
    Text(Cow<'a, str>),
    /// Anything else.
    Bytes {
        /// The bytes.
        base64: String,
    },
}

impl<'a> KeyText<'a> {
    /// Encodes bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.into()),
            Err(_) => Self::Bytes { base64: STANDARD.encode(bytes) },
        }
    }

    /// The same value without a borrow.
    #[must_use]
    pub fn into_owned(self) -> KeyText<'static> {
        match self {
            Self::Text(text) => KeyText::Text(text.into_owned().into()),
            Self::Bytes { base64 } => KeyText::Bytes { base64 },
        }
    }

    /// The bytes. None if the base64 is invalid.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.as_bytes().to_vec()),
            Self::Bytes { base64 } => STANDARD.decode(base64).ok(),
        }
    }
}

/// The result line of an item.
///
/// A line leaves out what is absent and what is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemRecord<'a> {
    /// Its key.
    #[serde(borrow)]
    pub key: KeyText<'a>,
    /// The item as the command gets it, a row, a path or a URL, if it is not the key.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub item: Option<KeyText<'a>>,
    /// The row number, from 1, if the item is a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// Size of the item in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// Exit code of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// The signal that ended the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Run time in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// How often it was tried, if more than once. Earlier lines call it `attempt`.
    #[serde(default, alias = "attempt", skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Sequence number of the first item of its batch, if it was in a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// The stdout of the program.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<KeyText<'a>>,
    /// The path or URL of a long stdout.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub stdout_path: Option<KeyText<'a>>,
    /// Length of the long stdout in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_bytes: Option<u64>,
    /// BLAKE3 of the long stdout, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_blake3: Option<Cow<'a, str>>,
    /// The stderr of the program.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<KeyText<'a>>,
    /// The path or URL of a long stderr.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub stderr_path: Option<KeyText<'a>>,
    /// Length of the long stderr in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_bytes: Option<u64>,
    /// BLAKE3 of the long stderr, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_blake3: Option<Cow<'a, str>>,
    /// Why the item has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Cow<'a, str>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl<'a> ItemRecord<'a> {
    /// A line with a key and nothing else.
    #[must_use]
    pub const fn new(key: KeyText<'a>) -> Self {
        Self {
            key,
            item: None,
            row: None,
            bytes: 0,
            exit: None,
            signal: None,
            ms: None,
            attempts: None,
            batch: None,
            stdout: None,
            stdout_path: None,
            stdout_bytes: None,
            stdout_blake3: None,
            stderr: None,
            stderr_path: None,
            stderr_bytes: None,
            stderr_blake3: None,
            failed: None,
        }
    }

    /// Encodes the line.
    pub fn to_line(&self) -> io::Result<Vec<u8>> {
        to_line(self)
    }
}

/// Encodes a record as a line of JSON.
pub(crate) fn to_line(record: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(128);
    serde_json::to_writer(&mut line, record)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &[u8]) -> ItemRecord<'_> {
        ItemRecord {
            bytes: 7,
            exit: Some(0),
            ms: Some(3),
            stdout: Some(KeyText::new(b"hi\n")),
            ..ItemRecord::new(KeyText::new(key))
        }
    }

    #[test]
    fn lines_of_earlier_versions_are_read() {
        let line = r#"{"key":"a","exit":-1,"ms":0,"attempt":3,"failed":"exit code 1"}"#;
        let read: ItemRecord<'_> = serde_json::from_str(line).unwrap();
        let expected = ItemRecord {
            exit: Some(-1),
            ms: Some(0),
            attempts: Some(3),
            failed: Some("exit code 1".into()),
            ..ItemRecord::new(KeyText::new(b"a"))
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn a_line_leaves_out_absent_fields() {
        let line = record(b"a/b").to_line().unwrap();
        let expected = "{\"key\":\"a/b\",\"bytes\":7,\"exit\":0,\"ms\":3,\"stdout\":\"hi\\n\"}\n";
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn keys_round_trip_byte_for_byte() {
        for key in [b"a\xff\n".as_slice(), b"plain", b"\"quoted\"", b""] {
            let line = record(key).to_line().unwrap();
            let read: ItemRecord<'_> = serde_json::from_slice(&line).unwrap();
            assert_eq!(read.key.to_bytes().unwrap(), key);
        }
    }

    #[test]
    fn the_path_of_a_long_output_round_trips() {
        for path in [b"/spill/\xff/1".as_slice(), b"/spill/1"] {
            let record = ItemRecord { stdout_path: Some(KeyText::new(path)), ..record(b"a") };
            let line = record.to_line().unwrap();
            let read: ItemRecord<'_> = serde_json::from_slice(&line).unwrap();
            assert_eq!(read.stdout_path.unwrap().to_bytes().unwrap(), path);
        }
    }

    #[test]
    fn an_encoding_failure_is_an_error_and_not_an_empty_line() {
        struct Unwritable;
        impl Serialize for Unwritable {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("no"))
            }
        }
        assert!(to_line(&Unwritable).is_err());
    }
}
