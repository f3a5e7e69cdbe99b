//! One byte form per value, and the hash domains of its digest.
//!
//! Equal values write equal bytes, and different values write different bytes, so a digest of the
//! bytes identifies the value. The framing is fixed: integers are little-endian, byte strings carry
//! their length, an optional value carries a presence byte, and an enum is one byte.

use std::fmt;
use std::sync::OnceLock;

use arrayvec::ArrayVec;
use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};

/// A value with one canonical byte form.
pub trait CanonicalBytes {
    /// Writes the canonical form of this value to `sink`.
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S);
}

/// A sink of canonical bytes: a hasher or a buffer.
pub trait CanonicalSink {
    /// Appends bytes without a length. Only for fixed widths.
    fn put_raw(&mut self, bytes: &[u8]);

    /// Appends one byte.
    fn put_u8(&mut self, value: u8) {
        self.put_raw(&[value]);
    }

    /// Appends four bytes, little-endian.
    fn put_u32(&mut self, value: u32) {
        self.put_raw(&value.to_le_bytes());
    }

    /// Appends eight bytes, little-endian.
    fn put_u64(&mut self, value: u64) {
        self.put_raw(&value.to_le_bytes());
    }

    /// Appends a byte string after its length.
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_len(bytes.len());
        self.put_raw(bytes);
    }

    /// Appends a length or a count as four bytes.
    ///
    /// A length that does not fit is written as all ones and then in eight bytes. No validated
    /// value is that long, but the framing stays unambiguous without a panic.
    fn put_len(&mut self, len: usize) {
        match u32::try_from(len) {
            Ok(short) if short != u32::MAX => self.put_u32(short),
            _ => {
                self.put_u32(u32::MAX);
                self.put_u64(len as u64);
            }
        }
    }

    /// Appends an optional byte string: a presence byte, then the string if there is one.
    fn put_optional_bytes(&mut self, bytes: Option<&[u8]>) {
        self.put_u8(u8::from(bytes.is_some()));
        if let Some(bytes) = bytes {
            self.put_bytes(bytes);
        }
    }
}

impl CanonicalSink for Vec<u8> {
    fn put_raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// The purpose of a digest. Equal bytes in two domains give unrelated digests.
///
/// Stored digests depend on the context strings. A new purpose gets a new domain, and existing
/// domains never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Domain {
    /// Ids of shards that a split derives.
    SplitId,
    /// Fingerprints of an operation's parameters. They distinguish a replay from a conflict.
    OpPayload,
}

impl Domain {
    /// Every domain.
    pub const ALL: [Self; 2] = [Self::SplitId, Self::OpPayload];

    /// Its index in [`Domain::ALL`].
    const fn index(self) -> usize {
        match self {
            Self::SplitId => 0,
            Self::OpPayload => 1,
        }
    }

    /// The context string that separates this domain from all others.
    #[must_use]
    pub const fn context(self) -> &'static str {
        match self {
            Self::SplitId => "shardwright/coordination/v1/split-id",
            Self::OpPayload => "shardwright/coordination/v1/op-payload",
        }
    }

    /// Deriving a domain's key costs as much as a short hash, so each is derived once and cached.
    ///
    /// The cache holds the key, not a hasher: copying a hasher with its large buffer costs as much
    /// as a short hash, too.
    fn context_key(self) -> &'static ContextKey {
        static CONTEXT_KEYS: OnceLock<[ContextKey; Domain::ALL.len()]> = OnceLock::new();
        let context_keys = CONTEXT_KEYS
            .get_or_init(|| Self::ALL.map(|domain| hash_derive_key_context(domain.context())));
        #[expect(clippy::indexing_slicing, reason = "an index is a place in an array of this size")]
        &context_keys[self.index()]
    }

    fn hasher(self) -> blake3::Hasher {
        blake3::Hasher::new_from_context_key(self.context_key())
    }
}

/// Bytes that are collected before they are hashed.
///
/// Framed values come in many small pieces, and each would cost a call of the hash function. Two of
/// its blocks hold most fingerprinted values.
const GATHERED_MAX: usize = 128;

/// Digests canonical bytes within one [`Domain`].
#[derive(Clone)]
pub struct DomainHasher {
    domain: Domain,
    /// Collected bytes that are not hashed yet.
    gathered: ArrayVec<u8, GATHERED_MAX>,
    /// The hasher, once more bytes came than can be collected.
    hashed: Option<blake3::Hasher>,
}

impl DomainHasher {
    /// Starts a digest in `domain`.
    #[must_use]
    #[inline]
    pub const fn new(domain: Domain) -> Self {
        Self { domain, gathered: ArrayVec::new_const(), hashed: None }
    }

    /// Starts a digest in `domain` with `tag` as a second layer of separation.
    #[must_use]
    #[inline]
    pub fn tagged(domain: Domain, tag: &[u8]) -> Self {
        let mut hasher = Self::new(domain);
        hasher.put_bytes(tag);
        hasher
    }

    /// Adds a value.
    #[must_use]
    pub fn with<T: CanonicalBytes + ?Sized>(mut self, value: &T) -> Self {
        value.write_canonical(&mut self);
        self
    }

    /// The full digest.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = match &self.hashed {
            None => self.domain.hasher(),
            Some(hashed) => hashed.clone(),
        };
        *hasher.update(&self.gathered).finalize().as_bytes()
    }

    /// The first eight bytes of the digest, little-endian.
    #[must_use]
    pub fn digest64(&self) -> u64 {
        let [b0, b1, b2, b3, b4, b5, b6, b7, ..] = self.digest();
        u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7])
    }

    /// Adds bytes that do not fit the collected ones.
    #[cold]
    fn put_beyond(&mut self, bytes: &[u8]) {
        let hashed = self.hashed.get_or_insert_with(|| self.domain.hasher());
        hashed.update(&self.gathered);
        self.gathered.clear();
        if self.gathered.try_extend_from_slice(bytes).is_err() {
            hashed.update(bytes);
        }
    }
}

impl CanonicalSink for DomainHasher {
    #[inline]
    fn put_raw(&mut self, bytes: &[u8]) {
        if self.gathered.try_extend_from_slice(bytes).is_err() {
            self.put_beyond(bytes);
        }
    }
}

impl fmt::Debug for DomainHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DomainHasher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{RunId, ShardId, ShardKey};

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes
    }

    #[test]
    fn integers_are_little_endian() {
        assert_eq!(written(|s| s.put_u8(0xab)), [0xab]);
        assert_eq!(written(|s| s.put_u32(0x0102_0304)), [4, 3, 2, 1]);
        assert_eq!(written(|s| s.put_u64(0x0102_0304_0506_0708)), [8, 7, 6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn byte_strings_carry_their_length() {
        assert_eq!(written(|s| s.put_bytes(b"")), [0, 0, 0, 0]);
        assert_eq!(written(|s| s.put_bytes(b"ab")), [2, 0, 0, 0, b'a', b'b']);
    }

    #[test]
    fn absent_and_empty_differ() {
        assert_eq!(written(|s| s.put_optional_bytes(None)), [0]);
        assert_eq!(written(|s| s.put_optional_bytes(Some(b""))), [1, 0, 0, 0, 0]);
    }

    #[test]
    fn length_beyond_four_bytes_is_escaped() {
        let longest_short = u32::MAX as usize - 1;
        assert_eq!(written(|s| s.put_len(longest_short)), [0xfe, 0xff, 0xff, 0xff]);
        for len in [u32::MAX as usize, u32::MAX as usize + 1] {
            let mut expected = vec![0xff; 4];
            expected.extend_from_slice(&(len as u64).to_le_bytes());
            assert_eq!(written(|s| s.put_len(len)), expected);
        }
    }

    #[test]
    fn contexts_are_unique_and_well_formed() {
        for (index, domain) in Domain::ALL.iter().enumerate() {
            assert_eq!(domain.index(), index);
            let context = domain.context();
            let parts: Vec<_> = context.split('/').collect();
            assert_eq!(parts.len(), 4, "{context}");
            assert_eq!((parts[0], parts[2]), ("shardwright", "v1"), "{context}");
            assert!(
                context
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"/-".contains(&b)),
                "{context}"
            );
            for other in &Domain::ALL[..index] {
                assert_ne!(context, other.context());
            }
        }
    }

    #[test]
    fn digest_is_blake3_in_derive_key_mode() {
        for domain in Domain::ALL {
            let mut hasher = DomainHasher::new(domain);
            hasher.put_raw(b"abc");
            assert_eq!(hasher.digest(), blake3::derive_key(domain.context(), b"abc"));
        }
    }

    #[test]
    fn digest_is_independent_of_the_piece_sizes() {
        let bytes: Vec<u8> = (0..1_000_u32).map(|n| n as u8).collect();
        let expected = blake3::derive_key(Domain::OpPayload.context(), &bytes);
        for size in [1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 257, 999, 1_000] {
            let mut hasher = DomainHasher::new(Domain::OpPayload);
            for piece in bytes.chunks(size) {
                hasher.put_raw(piece);
                _ = hasher.digest64();
            }
            assert_eq!(hasher.digest(), expected, "{size}");
        }
    }

    #[test]
    fn short_digest_is_the_first_eight_bytes_little_endian() {
        let hasher = DomainHasher::new(Domain::SplitId);
        let digest = hasher.digest();
        assert_eq!(hasher.digest64().to_le_bytes(), digest[..8]);
    }

    #[test]
    fn tag_is_framed() {
        let tagged = |tag: &[u8], rest: &[u8]| {
            let mut hasher = DomainHasher::tagged(Domain::OpPayload, tag);
            hasher.put_raw(rest);
            hasher.digest()
        };
        assert_ne!(tagged(b"ab", b"c"), tagged(b"a", b"bc"));
        assert_ne!(tagged(b"a", b"c"), tagged(b"b", b"c"));
    }

    /// Computed with another implementation of BLAKE3.
    #[test]
    fn golden_digests() {
        let key = ShardKey::new(RunId::from_raw(1), ShardId::from_raw(2));
        let digest = |domain| DomainHasher::tagged(domain, b"tag").with(&key).digest64();
        assert_eq!(digest(Domain::SplitId), GOLDEN_SPLIT_ID);
        assert_eq!(digest(Domain::OpPayload), GOLDEN_OP_PAYLOAD);
    }

    const GOLDEN_SPLIT_ID: u64 = 0xb02e_8449_4013_59cf;
    const GOLDEN_OP_PAYLOAD: u64 = 0xbb5c_75d1_fb2e_f178;
}

#[cfg(test)]
mod golden;
