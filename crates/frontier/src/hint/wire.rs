//! A shard's hint, and its bytes.

use std::fmt;

use shardwright_contracts::Redacted;
use shardwright_contracts::limits::MAX_METADATA_SIZE;

use super::MetadataBuf;

const TAG_RANGE: u8 = 0x00;
const TAG_PREFIX: u8 = 0x01;
const TAG_MANIFEST: u8 = 0x02;

const RANGE_LEN: usize = 1;
const PREFIX_HEADER_LEN: usize = 1 + 4;
const MANIFEST_LEN: usize = 1 + 3 * 8;

/// What a shard's range represents.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ShardHint<'a> {
    /// Nothing beyond the range itself.
    Range,
    /// All keys that start with a prefix.
    Prefix {
        /// The prefix.
        prefix: &'a [u8],
    },
    /// Rows of one manifest.
    Manifest {
        /// The manifest.
        manifest_id: u64,
        /// First row.
        start_row: u64,
        /// First row after the last.
        end_row: u64,
    },
}

/// Why a hint or an envelope cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardEncodeError {
    /// The prefix's length does not fit its four bytes.
    #[error("a prefix of {size} bytes exceeds the {max} that its length field can hold")]
    PrefixTooLarge {
        /// Its length.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// The hint alone exceeds the limit of metadata.
    #[error("a hint of {size} bytes exceeds {max}")]
    HintTooLarge {
        /// Its length.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// The hint and the connector's bytes together exceed the limit of metadata.
    #[error("metadata of {size} bytes exceeds {max}")]
    MetadataTooLarge {
        /// Their length, framing included.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// The row range is empty.
    #[error("the row range {start_row}..{end_row} is empty or inverted")]
    InvertedManifestRows {
        /// First row.
        start_row: u64,
        /// First row after the last.
        end_row: u64,
    },
}

/// Why a hint is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardHintDecodeError {
    /// There are no bytes.
    #[error("the hint is empty")]
    EmptyData,
    /// The tag is unknown.
    #[error("unknown hint tag {0:#04x}")]
    UnknownTag(u8),
    /// The bytes end within a prefix hint.
    #[error("a prefix hint of at least {expected_min} bytes is truncated to {actual}")]
    TruncatedPrefix {
        /// Its minimum length, as far as known.
        expected_min: usize,
        /// The available bytes.
        actual: usize,
    },
    /// The bytes end within a manifest hint.
    #[error("a manifest hint of {expected_min} bytes is truncated to {actual}")]
    TruncatedManifest {
        /// Its length.
        expected_min: usize,
        /// The available bytes.
        actual: usize,
    },
    /// The row range is empty.
    #[error("the row range {start_row}..{end_row} is empty or inverted")]
    InvertedManifestRows {
        /// First row.
        start_row: u64,
        /// First row after the last.
        end_row: u64,
    },
}

/// The encoded length of a hint whose prefix has `size` bytes.
pub(super) const fn prefix_hint_len(size: usize) -> Result<usize, ShardEncodeError> {
    let max = u32::MAX as usize;
    if size > max {
        return Err(ShardEncodeError::PrefixTooLarge { size, max });
    }
    Ok(PREFIX_HEADER_LEN.saturating_add(size))
}

impl<'a> ShardHint<'a> {
    /// The encoded length, if the hint can be encoded.
    pub fn encoded_len(&self) -> Result<usize, ShardEncodeError> {
        let size = match *self {
            Self::Range => RANGE_LEN,
            Self::Prefix { prefix } => prefix_hint_len(prefix.len())?,
            Self::Manifest { start_row, end_row, .. } if start_row >= end_row => {
                return Err(ShardEncodeError::InvertedManifestRows { start_row, end_row });
            }
            Self::Manifest { .. } => MANIFEST_LEN,
        };
        if size > MAX_METADATA_SIZE {
            return Err(ShardEncodeError::HintTooLarge { size, max: MAX_METADATA_SIZE });
        }
        Ok(size)
    }

    /// Replaces the content of `buf` by the hint. On error `buf` is unchanged.
    pub fn encode_into<'b>(&self, buf: &'b mut MetadataBuf) -> Result<&'b [u8], ShardEncodeError> {
        self.encoded_len()?;
        buf.clear();
        self.append_to(buf);
        Ok(buf.as_bytes())
    }

    /// Appends a hint whose length was checked.
    pub(super) fn append_to(&self, buf: &mut MetadataBuf) {
        match *self {
            Self::Range => buf.append(&[TAG_RANGE]),
            Self::Prefix { prefix } => {
                buf.append(&[TAG_PREFIX]);
                buf.append_len(prefix.len());
                buf.append(prefix);
            }
            Self::Manifest { manifest_id, start_row, end_row } => {
                buf.append(&[TAG_MANIFEST]);
                for field in [manifest_id, start_row, end_row] {
                    buf.append(&field.to_be_bytes());
                }
            }
        }
    }

    /// Decodes a hint from the front of `data`. Returns the number of bytes it took.
    pub fn decode(data: &'a [u8]) -> Result<(Self, usize), ShardHintDecodeError> {
        match data {
            [] => Err(ShardHintDecodeError::EmptyData),
            [TAG_RANGE, ..] => Ok((Self::Range, RANGE_LEN)),
            [TAG_PREFIX, rest @ ..] => Self::decode_prefix(rest),
            [TAG_MANIFEST, rest @ ..] => Self::decode_manifest(rest),
            [unknown, ..] => Err(ShardHintDecodeError::UnknownTag(*unknown)),
        }
    }

    fn decode_prefix(body: &'a [u8]) -> Result<(Self, usize), ShardHintDecodeError> {
        let actual = body.len() + 1;
        let truncated =
            |expected_min| ShardHintDecodeError::TruncatedPrefix { expected_min, actual };
        let (len, rest) = body.split_first_chunk().ok_or(truncated(PREFIX_HEADER_LEN))?;
        let expected = PREFIX_HEADER_LEN.saturating_add(u32::from_be_bytes(*len) as usize);
        let prefix = rest.get(..expected - PREFIX_HEADER_LEN).ok_or(truncated(expected))?;
        Ok((Self::Prefix { prefix }, expected))
    }

    fn decode_manifest(body: &[u8]) -> Result<(Self, usize), ShardHintDecodeError> {
        let truncated = ShardHintDecodeError::TruncatedManifest {
            expected_min: MANIFEST_LEN,
            actual: body.len() + 1,
        };
        let ([manifest_id, start_row, end_row], _) =
            body.as_chunks().0.split_first_chunk().ok_or(truncated)?;
        let [manifest_id, start_row, end_row] =
            [manifest_id, start_row, end_row].map(|field| u64::from_be_bytes(*field));
        if start_row >= end_row {
            return Err(ShardHintDecodeError::InvertedManifestRows { start_row, end_row });
        }
        Ok((Self::Manifest { manifest_id, start_row, end_row }, MANIFEST_LEN))
    }
}

impl fmt::Debug for ShardHint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range => f.write_str("Range"),
            Self::Prefix { prefix } => {
                f.debug_struct("Prefix").field("prefix", &Redacted(prefix)).finish()
            }
            Self::Manifest { manifest_id, start_row, end_row } => f
                .debug_struct("Manifest")
                .field("manifest_id", manifest_id)
                .field("rows", &(start_row..end_row))
                .finish(),
        }
    }
}
