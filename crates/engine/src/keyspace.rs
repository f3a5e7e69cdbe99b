//! Keys of one system within a store.
//!
//! Keys are readable text: parts between slashes, and ids as hex digits of fixed width, so that
//! keys sort like ids. All keys begin with the keyspace's prefix, so that several systems can share
//! a store.
//!
//! Each protocol names its own keys below that prefix. These belong to the store as a whole:
//!
//! | key | record |
//! |---|---|
//! | `meta/format` | [`FormatRecord`](crate::codec::FormatRecord) |
//! | `meta/incarnation` | [`StoreGenerationRecord`](crate::codec::StoreGenerationRecord) |
//! | `meta/clock` | [`ClockMarkRecord`](crate::codec::ClockMarkRecord) |

use std::sync::Arc;

use shardwright_contracts::TenantId;
use shardwright_store::{Key, StoreAddress, StoreRange};

use crate::codec::RecordKind;

/// The keys of one system within a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    prefix: Arc<str>,
}

impl Default for Keyspace {
    /// The keys that begin with `shardwright/`.
    fn default() -> Self {
        Self { prefix: "shardwright/".into() }
    }
}

impl Keyspace {
    /// Longest prefix, in bytes.
    pub const PREFIX_BYTES_MAX: usize = 128;

    /// The keys that begin with `prefix`: nothing, or letters, digits, `-`, `_`, `.` and `/` with
    /// a `/` at the end.
    ///
    /// Systems that share a store need prefixes of which none is a prefix of another.
    pub fn new(prefix: &str) -> Result<Self, PrefixError> {
        check(prefix)?;
        Ok(Self { prefix: prefix.into() })
    }

    /// The keys without a prefix, for a store that is not shared.
    #[must_use]
    pub fn bare() -> Self {
        Self { prefix: "".into() }
    }

    /// Our keys in the store at an address. An etcd store puts its namespace before every key.
    /// Other programs may use a given namespace, so our keys have their usual prefix in it.
    #[must_use]
    pub fn of_store(address: &StoreAddress, namespace: Option<&str>) -> Self {
        match namespace {
            None if address.is_shared() => Self::bare(),
            None | Some(_) => Self::default(),
        }
    }

    /// The prefix of all keys.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Joins parts to a key.
    #[must_use]
    pub fn key(&self, parts: &[Part<'_>]) -> Key {
        Key::from(join(&self.prefix, parts))
    }

    /// All keys that begin with these parts.
    #[must_use]
    pub fn beginning(&self, parts: &[Part<'_>]) -> StoreRange {
        StoreRange::prefix(join(&self.prefix, parts))
    }

    /// A key without the prefix, if it has the prefix.
    #[must_use]
    pub fn strip<'k>(&self, key: &'k Key) -> Option<&'k [u8]> {
        key.as_bytes().strip_prefix(self.prefix.as_bytes())
    }

    /// Every key of this keyspace.
    #[must_use]
    pub fn everything(&self) -> StoreRange {
        self.beginning(&[])
    }

    /// Layout of the store.
    #[must_use]
    pub fn format(&self) -> Key {
        self.key(&[MetaKey::Format.part()])
    }

    /// How often the store was set up or restored.
    #[must_use]
    pub fn generation(&self) -> Key {
        self.key(&[MetaKey::Generation.part()])
    }

    /// Up to where the clock may have been read.
    #[must_use]
    pub fn clock(&self) -> Key {
        self.key(&[MetaKey::Clock.part()])
    }
}

/// A key of the store as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaKey {
    /// Layout of the store.
    Format,
    /// How often the store was set up or restored.
    Generation,
    /// Up to where the clock may have been read.
    Clock,
}

impl MetaKey {
    /// Every key.
    pub const ALL: [Self; 3] = [Self::Format, Self::Generation, Self::Clock];

    /// The key, without the prefix.
    #[must_use]
    pub const fn part(self) -> Part<'static> {
        Part::Text(match self {
            Self::Format => "meta/format",
            Self::Generation => "meta/incarnation",
            Self::Clock => "meta/clock",
        })
    }

    /// Reads a key without its prefix.
    #[must_use]
    pub fn parse(key: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|one| matches!(one.part(), Part::Text(it) if it.as_bytes() == key))
    }

    /// Kind of the record under the key.
    #[must_use]
    pub const fn kind(self) -> RecordKind {
        match self {
            Self::Format => RecordKind::Format,
            Self::Generation => RecordKind::StoreGeneration,
            Self::Clock => RecordKind::ClockMark,
        }
    }
}

/// Error of a key prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// It is too long.
    #[error("a key prefix of {size} bytes exceeds {max}")]
    TooLong {
        /// Its length.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// It contains a character other than a letter, digit, `-`, `_`, `.` or `/`.
    #[error("byte {position} of the key prefix is not a letter, digit, '-', '_', '.' or '/'")]
    Character {
        /// Its offset, in bytes.
        position: usize,
    },
    /// It does not end in `/`.
    #[error("a key prefix must end in '/'")]
    Unfinished,
}

/// Checks the length first, then the characters, then the end.
fn check(prefix: &str) -> Result<(), PrefixError> {
    let (size, max) = (prefix.len(), Keyspace::PREFIX_BYTES_MAX);
    if size > max {
        return Err(PrefixError::TooLong { size, max });
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if let Some(position) = prefix.bytes().position(|byte| !allowed(byte)) {
        return Err(PrefixError::Character { position });
    }
    if !prefix.is_empty() && !prefix.ends_with('/') {
        return Err(PrefixError::Unfinished);
    }
    Ok(())
}

/// Digits of an id.
const ID_DIGITS: usize = 16;
/// Digits of a tenant.
const TENANT_DIGITS: usize = 2 * TenantId::SIZE;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// One piece of a key.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// Text, with its slashes.
    Text(&'a str),
    /// A tenant, as hex digits.
    Tenant(&'a TenantId),
    /// An id, as hex digits of fixed width.
    Id(u64),
}

impl Part<'_> {
    const fn len(self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Tenant(_) => TENANT_DIGITS,
            Self::Id(_) => ID_DIGITS,
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Tenant(tenant) => write_hex(tenant.as_bytes(), out),
            Self::Id(id) => write_hex(&id.to_be_bytes(), out),
        }
    }
}

/// Joins parts in a buffer of exact length, which becomes a key without another copy.
#[must_use]
pub fn join(prefix: &str, parts: &[Part<'_>]) -> Vec<u8> {
    let len = parts.iter().fold(prefix.len(), |len, part| len + part.len());
    let mut out = Vec::with_capacity(len);
    out.extend_from_slice(prefix.as_bytes());
    for part in parts {
        part.write(&mut out);
    }
    out
}

fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().flat_map(|byte| [digit_of(byte >> 4), digit_of(byte & 0xf)]));
}

fn digit_of(nibble: u8) -> u8 {
    DIGITS.get(usize::from(nibble)).copied().unwrap_or_default()
}

/// Reads an id of exactly sixteen lower-case digits.
#[must_use]
pub fn read_id(text: &[u8]) -> Option<u64> {
    read_hex(text).map(u64::from_be_bytes)
}

/// Reads a tenant of exactly sixty-four lower-case digits.
#[must_use]
pub fn read_tenant(text: &[u8]) -> Option<TenantId> {
    read_hex(text).map(TenantId::from_bytes)
}

fn read_hex<const LEN: usize>(text: &[u8]) -> Option<[u8; LEN]> {
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    if pairs.len() != LEN {
        return None;
    }
    let mut bytes = [0; LEN];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = value_of(*high)? << 4 | value_of(*low)?;
    }
    Some(bytes)
}

/// Lower case only, so that every id has one spelling.
const fn value_of(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_store_round_trip() {
        let keyspace = Keyspace::new("p/").unwrap();
        let written = [keyspace.format(), keyspace.generation(), keyspace.clock()];
        for ((key, meta), text) in
            written.iter().zip(MetaKey::ALL).zip(["format", "incarnation", "clock"])
        {
            assert_eq!(key.to_string(), format!("p/meta/{text}"));
            assert_eq!(keyspace.strip(key).and_then(MetaKey::parse), Some(meta));
            assert!(keyspace.everything().contains(key));
        }
        assert_eq!(MetaKey::parse(b"meta/"), None);
        assert_eq!(keyspace.strip(&Key::from("q/meta/clock")), None);
    }

    #[test]
    fn prefix_is_plain_and_ends_in_a_slash() {
        let check = |prefix: &str| Keyspace::new(prefix).map(drop);
        let long = "a".repeat(Keyspace::PREFIX_BYTES_MAX);
        assert_eq!(check(&format!("{}/", &long[1..])), Ok(()));
        assert_eq!(check(&format!("{long}/")), Err(PrefixError::TooLong { size: 129, max: 128 }));
        assert_eq!(check("shardwright"), Err(PrefixError::Unfinished));
        for (prefix, position) in [("a b/", 1), ("ä/", 0), ("a\u{0}/", 1), ("ab*/", 2), ("\"/", 0)]
        {
            assert_eq!(check(prefix), Err(PrefixError::Character { position }), "{prefix}");
        }
    }
}
