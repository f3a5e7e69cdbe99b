use std::fmt;

use shardwright_contracts::Redacted;
use shardwright_contracts::limits::MAX_KEY_SIZE;

use super::{KeyBuf, KeyEncoding};

/// A path, encoded as its own UTF-8 bytes.
///
/// Nothing is normalized: separators, case and Unicode forms stay as they are, and two spellings
/// of one file are two keys. Whoever wants them to be one normalizes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathKey<'a>(&'a str);

/// Why a string cannot be a path key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathKeyError {
    /// The path is empty, which as a range bound would mean the end of the keyspace.
    #[error("a path key must not be empty")]
    Empty,
    /// The path is longer than a key may be.
    #[error("a path of {size} bytes exceeds {max}")]
    TooLarge {
        /// Its length.
        size: usize,
        /// The limit.
        max: usize,
    },
}

impl<'a> PathKey<'a> {
    /// Takes a path that the caller knows to be valid.
    ///
    /// # Panics
    ///
    /// If the path is empty or longer than 4,096 bytes. Use [`PathKey::try_new`] for paths that
    /// come from outside.
    #[must_use]
    pub fn new(path: &'a str) -> Self {
        #[expect(clippy::panic, reason = "the documented contract of this constructor")]
        Self::try_new(path).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Takes a path, if it can be a key.
    pub const fn try_new(path: &'a str) -> Result<Self, PathKeyError> {
        match path.len() {
            0 => Err(PathKeyError::Empty),
            size if size > MAX_KEY_SIZE => Err(PathKeyError::TooLarge { size, max: MAX_KEY_SIZE }),
            _ => Ok(Self(path)),
        }
    }

    /// The path.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

impl KeyEncoding for PathKey<'_> {
    fn encode_into(&self, buf: &mut KeyBuf) {
        buf.copy_from_slice(self.0.as_bytes());
    }
}

impl fmt::Debug for PathKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathKey({})", Redacted(self.0.as_bytes()))
    }
}
