//! The progress of a shard.
//!
//! A cursor is a pair: the last key, which is comparable, and a token, which only its connector can
//! read. The key only moves forward:
//!
//! | from | to | verdict |
//! |---|---|---|
//! | none | none | accepted, no change |
//! | none | `k` | accepted, first progress |
//! | `a` | `b`, not below `a` | accepted, progress or a retry |
//! | `a` | none | refused, a reset |
//! | `a` | `b`, below `a` | refused, a regression |

use std::fmt;

use crate::canonical::{CanonicalBytes, CanonicalSink};
use crate::limits::{MAX_KEY_SIZE, MAX_TOKEN_SIZE};
use crate::redacted::Redacted;
use crate::spec::ShardSpecRef;

/// When a run counts a key as processed. Stored as one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CursorSemantics {
    /// The cursor passes a key once its results are durable.
    #[default]
    Completed = 0,
    /// The cursor passes a key once its work was dispatched. This is faster, but work in flight at
    /// a crash is lost.
    Dispatched = 1,
}

const _: () = assert!(CursorSemantics::Completed as u8 == 0);
const _: () = assert!(CursorSemantics::Dispatched as u8 == 1);

/// A stored byte without cursor semantics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} names no cursor semantics")]
pub struct UnknownCursorSemantics(pub u8);

impl TryFrom<u8> for CursorSemantics {
    type Error = UnknownCursorSemantics;

    fn try_from(byte: u8) -> Result<Self, Self::Error> {
        match byte {
            0 => Ok(Self::Completed),
            1 => Ok(Self::Dispatched),
            unknown => Err(UnknownCursorSemantics(unknown)),
        }
    }
}

impl CanonicalBytes for CursorSemantics {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u8(*self as u8);
    }
}

/// Why a cursor is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CursorInputError {
    /// The last key is present but empty.
    #[error("a cursor's last key must not be empty")]
    EmptyLastKey,
    /// The last key is too long.
    #[error("a cursor's last key of {size} bytes exceeds {max}")]
    KeyTooLarge {
        /// Its length.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// The token is too long.
    #[error("a cursor's token of {size} bytes exceeds {max}")]
    TokenTooLarge {
        /// Its length.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// There is a token without a key.
    #[error("a cursor's token needs a last key")]
    TokenWithoutKey,
}

/// A move of the cursor that would lose progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CursorRegression {
    /// The shard has progress and the new cursor has none.
    #[error("the cursor would be reset to the start")]
    Reset,
    /// The new last key lies before the old one.
    #[error("the cursor would move backwards")]
    Backwards,
}

/// An unchecked cursor. `B` decides who owns the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CursorInput<B> {
    last_key: Option<B>,
    token: Option<B>,
}

/// A cursor whose bytes are borrowed.
pub type CursorUpdate<'a> = CursorInput<&'a [u8]>;

impl<B> CursorInput<B> {
    /// The cursor of a shard without progress.
    #[must_use]
    pub const fn initial() -> Self {
        Self { last_key: None, token: None }
    }

    /// The cursor at `last_key`, without a token.
    #[must_use]
    pub const fn at(last_key: B) -> Self {
        Self { last_key: Some(last_key), token: None }
    }

    /// The same cursor with other bytes, each made from one of these by `change`.
    pub fn map<'b, C>(&'b self, mut change: impl FnMut(&'b B) -> C) -> CursorInput<C> {
        let last_key = self.last_key.as_ref().map(&mut change);
        CursorInput { last_key, token: self.token.as_ref().map(change) }
    }
}

impl<B: AsRef<[u8]>> CursorInput<B> {
    /// Pairs a key and a token. An empty token means the same as none.
    #[must_use]
    pub fn new(last_key: Option<B>, token: Option<B>) -> Self {
        Self { last_key, token: token.filter(|token| !token.as_ref().is_empty()) }
    }

    /// The same cursor, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> CursorUpdate<'_> {
        self.map(AsRef::as_ref)
    }
}

impl<'a> CursorUpdate<'a> {
    /// The last key that was processed.
    #[must_use]
    pub const fn last_key(self) -> Option<&'a [u8]> {
        self.last_key
    }

    /// The connector's data for resuming there.
    #[must_use]
    pub const fn token(self) -> Option<&'a [u8]> {
        self.token
    }

    /// Whether there is no progress.
    #[must_use]
    pub const fn is_initial(self) -> bool {
        self.last_key.is_none()
    }

    /// Checks form and sizes: first the key, then the token.
    pub const fn validate(self) -> Result<(), CursorInputError> {
        match self.last_key {
            Some([]) => return Err(CursorInputError::EmptyLastKey),
            Some(key) if key.len() > MAX_KEY_SIZE => {
                return Err(CursorInputError::KeyTooLarge { size: key.len(), max: MAX_KEY_SIZE });
            }
            None if self.token.is_some() => return Err(CursorInputError::TokenWithoutKey),
            Some(_) | None => {}
        }
        match self.token {
            Some(token) if token.len() > MAX_TOKEN_SIZE => {
                Err(CursorInputError::TokenTooLarge { size: token.len(), max: MAX_TOKEN_SIZE })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Checks a move from here to `next` by the table at the top of this module.
    pub fn check_advance(self, next: CursorUpdate<'_>) -> Result<(), CursorRegression> {
        match (self.last_key, next.last_key) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(CursorRegression::Reset),
            (Some(old), Some(new)) if new < old => Err(CursorRegression::Backwards),
            (Some(_), Some(_)) => Ok(()),
        }
    }

    /// Whether the cursor lies in `spec`: at its start, or at one of its keys.
    #[must_use]
    pub fn is_within(self, spec: ShardSpecRef<'_>) -> bool {
        self.last_key.is_none_or(|key| spec.contains(key))
    }
}

impl<B> Default for CursorInput<B> {
    fn default() -> Self {
        Self::initial()
    }
}

impl<B: AsRef<[u8]>> fmt::Debug for CursorInput<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CursorInput { last_key, token } = self.as_ref();
        f.debug_struct("CursorUpdate")
            .field("last_key", &last_key.map(Redacted))
            .field("token", &token.map(Redacted))
            .finish()
    }
}

impl<B: AsRef<[u8]>> CanonicalBytes for CursorInput<B> {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        let CursorInput { last_key, token } = self.as_ref();
        sink.put_optional_bytes(last_key);
        sink.put_optional_bytes(token);
    }
}

/// A checked cursor that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Cursor(Option<Position>);

#[derive(Clone, PartialEq, Eq)]
struct Position {
    last_key: Box<[u8]>,
    token: Option<Box<[u8]>>,
}

impl Cursor {
    /// The cursor of a shard without progress.
    #[must_use]
    pub const fn initial() -> Self {
        Self(None)
    }

    /// Copies a cursor that passes [`CursorUpdate::validate`].
    pub fn try_from_update(update: CursorUpdate<'_>) -> Result<Self, CursorInputError> {
        update.validate()?;
        Ok(Self(update.last_key().map(|last_key| Position {
            last_key: last_key.into(),
            token: update.token().map(Into::into),
        })))
    }

    /// The same cursor, borrowed.
    #[must_use]
    pub fn as_update(&self) -> CursorUpdate<'_> {
        match &self.0 {
            None => CursorUpdate::initial(),
            Some(at) => CursorUpdate { last_key: Some(&at.last_key), token: at.token.as_deref() },
        }
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Position")
            .field("last_key", &Redacted(&self.last_key))
            .field("token", &self.token.as_deref().map(Redacted))
            .finish()
    }
}

impl CanonicalBytes for Cursor {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.as_update().write_canonical(sink);
    }
}

#[cfg(test)]
mod tests;
