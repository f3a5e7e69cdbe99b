//! The line that a program's run leaves in the results.

use std::borrow::Cow;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Bytes as JSON: text where they are, base64 where they are not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyText<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// Anything else.
    Bytes {
        /// The bytes.
        base64: String,
    },
}

impl<'a> KeyText<'a> {
    /// Writes bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.into()),
            Err(_) => Self::Bytes { base64: STANDARD.encode(bytes) },
        }
    }

    /// The same, for as long as one likes.
    #[must_use]
    pub fn into_owned(self) -> KeyText<'static> {
        match self {
            Self::Text(text) => KeyText::Text(text.into_owned().into()),
            Self::Bytes { base64 } => KeyText::Bytes { base64 },
        }
    }

    /// The bytes; none if it is no base64.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.as_bytes().to_vec()),
            Self::Bytes { base64 } => STANDARD.decode(base64).ok(),
        }
    }
}

/// What came of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemRecord<'a> {
    /// Its key.
    #[serde(borrow)]
    pub key: KeyText<'a>,
    /// Which row it is, counted from one, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// How many bytes the item stands for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// How the program ended.
    pub exit: i32,
    /// How long it took.
    pub ms: u64,
    /// Which try it was, if not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The sequence of the first item of its batch, if it was in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// What the program wrote.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<KeyText<'a>>,
    /// Where what it wrote is, if it is long.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub stdout_path: Option<KeyText<'a>>,
    /// How many bytes are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_bytes: Option<u64>,
    /// Their BLAKE3, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_blake3: Option<Cow<'a, str>>,
    /// What went wrong, in a run whose cursors move when items are handed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Cow<'a, str>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl ItemRecord<'_> {
    /// The line for the results.
    pub fn to_line(&self) -> io::Result<Vec<u8>> {
        to_line(self)
    }
}

/// A record as a line of JSON.
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
            key: KeyText::new(key),
            row: None,
            bytes: 7,
            exit: 0,
            ms: 3,
            attempt: None,
            batch: None,
            stdout: Some(KeyText::new(b"hi\n")),
            stdout_path: None,
            stdout_bytes: None,
            stdout_blake3: None,
            failed: None,
        }
    }

    #[test]
    fn a_line_says_what_came_of_an_item() {
        let line = record(b"a/b").to_line().unwrap();
        let expected = "{\"key\":\"a/b\",\"bytes\":7,\"exit\":0,\"ms\":3,\"stdout\":\"hi\\n\"}\n";
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn keys_that_are_no_text_come_back_byte_for_byte() {
        for key in [b"a\xff\n".as_slice(), b"plain", b"\"quoted\"", b""] {
            let line = record(key).to_line().unwrap();
            let read: ItemRecord<'_> = serde_json::from_slice(&line).unwrap();
            assert_eq!(read.key.to_bytes().unwrap(), key);
        }
    }

    #[test]
    fn so_does_the_path_of_long_output() {
        for path in [b"/spill/\xff/1".as_slice(), b"/spill/1"] {
            let record = ItemRecord { stdout_path: Some(KeyText::new(path)), ..record(b"a") };
            let line = record.to_line().unwrap();
            let read: ItemRecord<'_> = serde_json::from_slice(&line).unwrap();
            assert_eq!(read.stdout_path.unwrap().to_bytes().unwrap(), path);
        }
    }

    #[test]
    fn what_cannot_be_written_is_an_error_and_no_empty_line() {
        struct Unwritable;
        impl Serialize for Unwritable {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("no"))
            }
        }
        assert!(to_line(&Unwritable).is_err());
    }
}
