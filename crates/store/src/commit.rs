use std::sync::Arc;

use bytes::Bytes;

use crate::key::Key;
use crate::limits::{LimitExceeded, StoreLimits};
use crate::store::{Revision, SessionId};

/// The required state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and was last written at this revision.
    At(Revision),
}

/// A key and its required state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expectation {
    /// The key.
    pub key: Key,
    /// Its required state.
    pub expect: Expect,
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a value. With a session, the store deletes the key when the session ends.
    Put {
        /// The key.
        key: Key,
        /// Its new value.
        value: Bytes,
        /// The session that the key belongs to.
        session: Option<SessionId>,
    },
    /// Deletes the key, if it exists.
    Delete {
        /// The key.
        key: Key,
    },
}

impl Write {
    /// The key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Put { key, value, .. } => key.as_bytes().len() + value.len(),
            Self::Delete { key } => key.as_bytes().len(),
        }
    }
}

/// Expectations and writes. If all expectations hold, all writes are applied at one revision.
/// Otherwise none is. A clone shares the parts, so a sender can keep a commit to resend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    parts: Arc<Parts>,
}

#[derive(Debug, PartialEq, Eq)]
struct Parts {
    expectations: Vec<Expectation>,
    writes: Vec<Write>,
}

impl Commit {
    /// An empty builder.
    pub const fn builder() -> CommitBuilder {
        CommitBuilder { expectations: Vec::new(), writes: Vec::new(), vouched: false }
    }

    /// The required states of keys.
    #[must_use]
    pub fn expectations(&self) -> &[Expectation] {
        &self.parts.expectations
    }

    /// The writes.
    #[must_use]
    pub fn writes(&self) -> &[Write] {
        &self.parts.writes
    }

    /// The bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let compared: usize =
            self.expectations().iter().map(|expected| expected.key.as_bytes().len()).sum();
        compared + self.writes().iter().map(Write::bytes).sum::<usize>()
    }

    /// Checks the size against the limits of a store.
    pub fn check(&self, limits: &StoreLimits) -> Result<(), LimitExceeded> {
        let longest = |keys: &mut dyn Iterator<Item = &Key>| {
            keys.map(|key| key.as_bytes().len()).max().unwrap_or_default()
        };
        let key = longest(&mut self.keys());
        LimitExceeded::check("expectations", self.expectations().len(), limits.expectations)?;
        LimitExceeded::check("writes", self.writes().len(), limits.writes)?;
        LimitExceeded::check("bytes of a key", key, limits.key_bytes)?;
        LimitExceeded::check("bytes", self.bytes(), limits.bytes)
    }

    /// Every key that the commit expects or writes, in no particular order. A key that is both
    /// occurs twice.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        let expected = self.expectations().iter().map(|expected| &expected.key);
        expected.chain(self.writes().iter().map(Write::key))
    }
}

/// Builds a [`Commit`].
#[derive(Clone, Debug)]
#[must_use = "a commit is not built until `build` is called"]
pub struct CommitBuilder {
    expectations: Vec<Expectation>,
    writes: Vec<Write>,
    vouched: bool,
}

impl CommitBuilder {
    /// Requires a state of a key.
    pub fn expect(mut self, key: Key, expect: Expect) -> Self {
        self.expectations.push(Expectation { key, expect });
        self
    }

    /// Requires a state of a key that the commit does not write. With a guard, the caller promises
    /// that applying the commit twice is harmless while the guard holds. Without one, a commit must
    /// write a key that it expects.
    pub fn guard(mut self, key: Key, expect: Expect) -> Self {
        self.vouched = true;
        self.expect(key, expect)
    }

    /// Changes one key.
    pub fn write(mut self, write: Write) -> Self {
        self.writes.push(write);
        self
    }

    /// Writes a value.
    pub fn put(self, key: Key, value: impl Into<Bytes>) -> Self {
        self.write(Write::Put { key, value: value.into(), session: None })
    }

    /// Writes a value that the store deletes when the session ends.
    pub fn put_in_session(self, key: Key, value: impl Into<Bytes>, session: SessionId) -> Self {
        self.write(Write::Put { key, value: value.into(), session: Some(session) })
    }

    /// Deletes a key.
    pub fn delete(self, key: Key) -> Self {
        self.write(Write::Delete { key })
    }

    /// Builds the commit. It is rejected if it is ambiguous, or if a late duplicate could apply it
    /// twice.
    pub fn build(self) -> Result<Commit, CommitShapeError> {
        let Self { expectations, writes, vouched } = self;
        if writes.is_empty() {
            return Err(CommitShapeError::Empty);
        }
        let written = sorted(writes.iter().map(Write::key));
        let written = written.map_err(CommitShapeError::WrittenTwice)?;
        let expected = sorted(expectations.iter().map(|expected| &expected.key));
        let expected = expected.map_err(CommitShapeError::ExpectedTwice)?;
        if !vouched && !expected.iter().any(|key| written.binary_search(key).is_ok()) {
            return Err(CommitShapeError::Repeatable);
        }
        Ok(Commit { parts: Arc::new(Parts { expectations, writes }) })
    }
}

/// Sorts keys, or returns one that occurs twice. Most commits have so few keys that a list is
/// faster than a tree.
fn sorted<'k>(keys: impl Iterator<Item = &'k Key>) -> Result<Vec<&'k Key>, Key> {
    let mut keys: Vec<&Key> = keys.collect();
    keys.sort_unstable();
    let twice = keys.windows(2).find(|pair| matches!(pair, [one, other] if one == other));
    match twice.and_then(<[&Key]>::first) {
        Some(twice) => Err(Key::clone(twice)),
        None => Ok(keys),
    }
}

/// Why a commit cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitShapeError {
    /// It writes nothing.
    #[error("a commit writes nothing")]
    Empty,
    /// It writes a key twice.
    #[error("a commit writes {0} twice")]
    WrittenTwice(Key),
    /// It has two expectations of one key.
    #[error("a commit has two expectations of {0}")]
    ExpectedTwice(Key),
    /// It could be applied twice.
    #[error("a commit writes none of the keys that it expects, and has no guard")]
    Repeatable,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &'static str) -> Key {
        Key::from(name)
    }

    fn writes(name: &'static str) -> CommitBuilder {
        Commit::builder().expect(key(name), Expect::Absent).put(key(name), "value")
    }

    #[test]
    fn a_commit_that_could_be_applied_twice_needs_a_guard() {
        let loose = || Commit::builder().expect(key("a"), Expect::Absent).put(key("b"), "");
        assert_eq!(loose().build(), Err(CommitShapeError::Repeatable));
        assert_eq!(Commit::builder().put(key("b"), "").build(), Err(CommitShapeError::Repeatable));
        assert!(loose().guard(key("gate"), Expect::At(Revision::new(3))).build().is_ok());
        assert!(writes("a").build().is_ok());
    }

    #[test]
    fn an_ambiguous_commit_is_refused() {
        assert_eq!(Commit::builder().build(), Err(CommitShapeError::Empty));
        let only_expects = Commit::builder().expect(key("a"), Expect::Absent);
        assert_eq!(only_expects.build(), Err(CommitShapeError::Empty));
        let error = writes("a").delete(key("a")).build();
        assert_eq!(error, Err(CommitShapeError::WrittenTwice(key("a"))));
        let error = writes("a").expect(key("a"), Expect::Absent).build();
        assert_eq!(error, Err(CommitShapeError::ExpectedTwice(key("a"))));
    }

    #[test]
    fn limits_are_inclusive() {
        let commit = writes("abc").delete(key("b")).build().unwrap();
        let fits = StoreLimits { expectations: 1, writes: 2, key_bytes: 3, bytes: 12 };
        assert_eq!(commit.bytes(), 12);
        assert_eq!(commit.check(&fits), Ok(()));
        let tight = [
            (StoreLimits { expectations: 0, ..fits }, "expectations"),
            (StoreLimits { writes: 1, ..fits }, "writes"),
            (StoreLimits { key_bytes: 2, ..fits }, "bytes of a key"),
            (StoreLimits { bytes: 11, ..fits }, "bytes"),
        ];
        for (limits, what) in tight {
            assert_eq!(commit.check(&limits).unwrap_err().what, what);
        }
    }
}
