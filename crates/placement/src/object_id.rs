//! Object ids, parsed once. Routing, locking, eviction and release use the parsed id and never look
//! at the text again.
//!
//! | text | location |
//! |---|---|
//! | `user-12345` (no `/`) | the shard of its hash |
//! | `shard#5/counter` | shard 5 |
//! | `10.0.0.5:47001/status` | that node, outside all shards |
//!
//! The first `/` separates. The rest may contain more of them.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use shardwright_contracts::{Redacted, ShardId};

use crate::address::{self, NodeAddressError, SHARD_PREFIX};
use crate::limits::{MAX_NUM_SHARDS, MAX_OBJECT_ID_SIZE};

/// The location of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectLocation<'a> {
    /// The shard of the hash of its id.
    Hashed,
    /// The shard that its id names.
    Shard(ShardId),
    /// The node that its id names. It belongs to no shard and needs no shard's lock.
    Node(&'a str),
}

/// Why an object id is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectIdError {
    /// It is empty.
    #[error("an object id is empty")]
    Empty,
    /// It is too long.
    #[error("an object id has {size} bytes, at most {MAX_OBJECT_ID_SIZE} are allowed")]
    TooLong {
        /// Its length in bytes.
        size: usize,
    },
    /// Nothing follows the shard or the node.
    #[error(
        "nothing follows the slash of an object id; the part before a slash names a node, or a \
         shard as in `shard#5/name`"
    )]
    NoObject,
    /// There is no number between `shard#` and `/`.
    #[error("an object id has no number after `shard#`")]
    NoShardNumber,
    /// The text between `shard#` and `/` is not a decimal number.
    #[error("the shard of an object id is not a decimal number")]
    ShardNotANumber,
    /// The number has leading zeros, so one shard would have many names.
    #[error("the shard of an object id has leading zeros")]
    ShardLeadingZero,
    /// The number exceeds the limit of shards.
    #[error("the shard of an object id exceeds {MAX_NUM_SHARDS}")]
    ShardTooLarge,
    /// The text before `/` is not a node address.
    #[error(
        "the part of an object id before a slash must be a node address or `shard#NUMBER`: {0}"
    )]
    Node(#[source] NodeAddressError),
}

/// A parsed object id, borrowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ObjectIdRef<'a> {
    text: &'a str,
    location: ObjectLocation<'a>,
}

impl<'a> ObjectIdRef<'a> {
    /// Parses an id.
    #[inline]
    pub fn parse(text: &'a str) -> Result<Self, ObjectIdError> {
        if text.is_empty() {
            return Err(ObjectIdError::Empty);
        }
        if text.len() > MAX_OBJECT_ID_SIZE {
            return Err(ObjectIdError::TooLong { size: text.len() });
        }
        let location =
            if has_slash(text.as_bytes()) { named_location(text)? } else { ObjectLocation::Hashed };
        Ok(Self { text, location })
    }

    /// The whole text.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.text
    }

    /// The location of the object.
    #[must_use]
    pub const fn location(self) -> ObjectLocation<'a> {
        self.location
    }
}

/// Whether there is a `/`. Compares eight bytes at a time, because every call needs it.
#[inline]
fn has_slash(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let (words, rest) = bytes.as_chunks::<8>();
    // Subtracting one sets the highest bit of a zero byte. A borrow can also set it in a higher
    // byte, but only if a lower byte was zero.
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7) != 0;
    let slashes = ONES * u64::from(b'/');
    words.iter().any(|word| has_zero(u64::from_le_bytes(*word) ^ slashes)) || rest.contains(&b'/')
}

/// The location that the part before the first `/` names.
#[cold]
fn named_location(text: &str) -> Result<ObjectLocation<'_>, ObjectIdError> {
    let Some((before, after)) = text.split_once('/') else { return Ok(ObjectLocation::Hashed) };
    let location = match before.strip_prefix(SHARD_PREFIX) {
        Some(number) => ObjectLocation::Shard(shard_number(number)?),
        None => {
            address::check(before).map_err(ObjectIdError::Node)?;
            ObjectLocation::Node(before)
        }
    };
    if after.is_empty() {
        return Err(ObjectIdError::NoObject);
    }
    Ok(location)
}

fn shard_number(digits: &str) -> Result<ShardId, ObjectIdError> {
    if digits.is_empty() {
        return Err(ObjectIdError::NoShardNumber);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ObjectIdError::ShardNotANumber);
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err(ObjectIdError::ShardLeadingZero);
    }
    match digits.parse::<u32>() {
        Ok(number) if number < MAX_NUM_SHARDS => Ok(ShardId::from_raw(number.into())),
        // Digits fail to parse only if there are too many.
        Ok(_) | Err(_) => Err(ObjectIdError::ShardTooLarge),
    }
}

impl fmt::Debug for ObjectIdRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Redacted(self.text.as_bytes());
        f.debug_struct("ObjectId").field("text", &text).field("location", &self.location).finish()
    }
}

/// A parsed object id, owned. It is cheap to clone. Ids are ordered by their text.
#[derive(Clone)]
pub struct ObjectId {
    text: Arc<str>,
    kept: KeptLocation,
}

/// The location, as far as the text does not contain it.
#[derive(Clone, Copy)]
enum KeptLocation {
    Hashed,
    Shard(ShardId),
    Node { address_size: usize },
}

impl ObjectId {
    /// Parses an id and owns it.
    pub fn parse(text: &str) -> Result<Self, ObjectIdError> {
        ObjectIdRef::parse(text).map(Self::from)
    }

    /// The whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The location of the object.
    #[must_use]
    pub fn location(&self) -> ObjectLocation<'_> {
        match self.kept {
            KeptLocation::Hashed => ObjectLocation::Hashed,
            KeptLocation::Shard(shard) => ObjectLocation::Shard(shard),
            KeptLocation::Node { address_size } => {
                ObjectLocation::Node(self.text.get(..address_size).unwrap_or_default())
            }
        }
    }

    /// The same id, borrowed.
    #[must_use]
    pub fn borrowed(&self) -> ObjectIdRef<'_> {
        ObjectIdRef { text: &self.text, location: self.location() }
    }
}

impl From<ObjectIdRef<'_>> for ObjectId {
    fn from(id: ObjectIdRef<'_>) -> Self {
        let kept = match id.location {
            ObjectLocation::Hashed => KeptLocation::Hashed,
            ObjectLocation::Shard(shard) => KeptLocation::Shard(shard),
            ObjectLocation::Node(address) => KeptLocation::Node { address_size: address.len() },
        };
        Self { text: Arc::from(id.text), kept }
    }
}

impl PartialEq for ObjectId {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for ObjectId {}

impl PartialOrd for ObjectId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for ObjectId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.borrowed().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn location(text: &str) -> Result<ObjectLocation<'_>, ObjectIdError> {
        ObjectIdRef::parse(text).map(ObjectIdRef::location)
    }

    #[rstest]
    #[case("user-12345", ObjectLocation::Hashed)]
    #[case("session-abc", ObjectLocation::Hashed)]
    #[case("shard#5", ObjectLocation::Hashed)]
    #[case("näme with spaces, and more", ObjectLocation::Hashed)]
    #[case("shard#5/object-123", ObjectLocation::Shard(ShardId::from_raw(5)))]
    #[case("shard#0/counter", ObjectLocation::Shard(ShardId::from_raw(0)))]
    #[case("shard#10/a/b", ObjectLocation::Shard(ShardId::from_raw(10)))]
    #[case("shard#4194303/x", ObjectLocation::Shard(ShardId::from_raw(4_194_303)))]
    #[case("localhost:7001/client-123", ObjectLocation::Node("localhost:7001"))]
    #[case("10.0.0.5:47001/status", ObjectLocation::Node("10.0.0.5:47001"))]
    #[case("[::1]:7001/a/b", ObjectLocation::Node("[::1]:7001"))]
    #[case("shard/5", ObjectLocation::Node("shard"))]
    fn every_form_has_its_location(#[case] text: &str, #[case] expected: ObjectLocation<'_>) {
        assert_eq!(location(text), Ok(expected));
        assert_eq!(ObjectId::parse(text).unwrap().location(), expected);
    }

    #[rstest]
    #[case("", ObjectIdError::Empty)]
    #[case("/", ObjectIdError::Node(NodeAddressError::Empty))]
    #[case("/x", ObjectIdError::Node(NodeAddressError::Empty))]
    #[case("a b/x", ObjectIdError::Node(NodeAddressError::Character { at: 1 }))]
    #[case("a,b/x", ObjectIdError::Node(NodeAddressError::Character { at: 1 }))]
    #[case("localhost:7001/", ObjectIdError::NoObject)]
    #[case("shard#5/", ObjectIdError::NoObject)]
    #[case("shard#/x", ObjectIdError::NoShardNumber)]
    #[case("shard#-1/x", ObjectIdError::ShardNotANumber)]
    #[case("shard#+1/x", ObjectIdError::ShardNotANumber)]
    #[case("shard# 1/x", ObjectIdError::ShardNotANumber)]
    #[case("shard#abc/x", ObjectIdError::ShardNotANumber)]
    #[case("shard#٣/x", ObjectIdError::ShardNotANumber)]
    #[case("shard#05/x", ObjectIdError::ShardLeadingZero)]
    #[case("shard#00/x", ObjectIdError::ShardLeadingZero)]
    #[case("shard#4194304/x", ObjectIdError::ShardTooLarge)]
    #[case("shard#4294967296/x", ObjectIdError::ShardTooLarge)]
    #[case("shard#99999999999999999999999/x", ObjectIdError::ShardTooLarge)]
    fn every_malformed_form_has_its_error(#[case] text: &str, #[case] error: ObjectIdError) {
        assert_eq!(location(text), Err(error));
    }

    #[test]
    fn object_id_is_limited_to_4096_bytes() {
        assert_eq!(location(&"a".repeat(4_096)), Ok(ObjectLocation::Hashed));
        assert_eq!(location(&"a".repeat(4_097)), Err(ObjectIdError::TooLong { size: 4_097 }));
    }

    #[test]
    fn debug_output_and_errors_hide_the_id() {
        let id = ObjectId::parse("secret").unwrap();
        assert_eq!(format!("{id:?}"), "ObjectId { text: <6 bytes>, location: Hashed }");
    }

    proptest! {
        #[test]
        fn owned_and_borrowed_ids_parse_alike(text in ".{0,40}") {
            match (ObjectIdRef::parse(&text), ObjectId::parse(&text)) {
                (Ok(borrowed), Ok(kept)) => {
                    prop_assert_eq!(borrowed, kept.borrowed());
                    prop_assert_eq!(kept.as_str(), &text);
                    let is_hashed = borrowed.location() == ObjectLocation::Hashed;
                    prop_assert_eq!(is_hashed, !text.contains('/'));
                }
                (Err(one), Err(other)) => prop_assert_eq!(one, other),
                _ => prop_assert!(false, "owned and borrowed ids differ"),
            }
        }

        #[test]
        fn slash_is_found_at_any_position(
            before in prop::collection::vec(any::<u8>(), 0..20),
            after in prop::collection::vec(any::<u8>(), 0..20),
            slash in any::<bool>(),
        ) {
            let mut bytes = before;
            bytes.extend(slash.then_some(b'/'));
            bytes.extend(after);
            prop_assert_eq!(has_slash(&bytes), bytes.contains(&b'/'));
        }

        #[test]
        fn shard_prefix_names_that_shard(shard in 0..MAX_NUM_SHARDS, rest in ".{1,10}") {
            let text = format!("shard#{shard}/{rest}");
            let named = ObjectLocation::Shard(ShardId::from_raw(shard.into()));
            prop_assert_eq!(location(&text), Ok(named));
        }
    }
}
