//! Names for runs, and what each run is for.
//!
//! A run's id is used once. A person who starts the same work again wants the run that is
//! there, so a *name* points to a run, and can be pointed to a new one. What a run is for (its
//! source, its command) is kept beside it as bytes that mean something only to whoever made it.
//! None of this decides who owns a shard.

use std::fmt;
use std::future::Future;

use shardwright_contracts::limits::MAX_RUN_NAME_SIZE;
use shardwright_contracts::{Redacted, RunId, TenantId};

use crate::backend::{Backend, execute};
use crate::error::reason::{LabelTooLarge, RunIdUsed};
use crate::error::{CoordError, InfraError};
use crate::operation::{FindRun, LabelOf, ListLabels, NameRun, narrow};

/// What people call a run: 1 to 40 ASCII letters, digits, `-`, `_` and `.`, not beginning with a
/// dot.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunName {
    bytes: [u8; MAX_RUN_NAME_SIZE],
    len: u8,
}

/// Why something is no name for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunNameError {
    /// It has no or too many characters.
    #[error("a run's name has 1 to {max} characters, not {length}", max = MAX_RUN_NAME_SIZE)]
    Length {
        /// How many it has.
        length: usize,
    },
    /// It has other characters.
    #[error("a run's name has only letters, digits, `-`, `_` and `.`, and no dot in front")]
    Characters,
}

impl RunName {
    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, RunNameError> {
        let length = name.len();
        let Ok(len @ 1..) = u8::try_from(length) else {
            return Err(RunNameError::Length { length });
        };
        let mut bytes = [0; MAX_RUN_NAME_SIZE];
        let room = bytes.get_mut(..length).ok_or(RunNameError::Length { length })?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.starts_with('.') || !name.bytes().all(is_plain) {
            return Err(RunNameError::Characters);
        }
        room.copy_from_slice(name.as_bytes());
        Ok(Self { bytes, len })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        str::from_utf8(bytes).unwrap_or_default()
    }
}

impl PartialOrd for RunName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RunName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl fmt::Debug for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunName({})", self.as_str())
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a run is for.
#[derive(Clone, PartialEq, Eq)]
pub struct RunLabel {
    /// The name under which it was started.
    pub name: RunName,
    /// What its maker wrote down about it.
    pub description: Box<[u8]>,
}

impl fmt::Debug for RunLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, description } = self;
        let description = Redacted(description);
        f.debug_struct("RunLabel").field("name", name).field("description", &description).finish()
    }
}

/// Why a run got no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameRunError {
    /// There is, or was, a run of that id.
    #[error("{}", RunIdUsed { run: *run })]
    RunIdUsed {
        /// The id.
        run: RunId,
    },
    /// The description is too long.
    #[error("{}", LabelTooLarge { length: *length })]
    LabelTooLarge {
        /// Its length.
        length: usize,
    },
    /// Something below failed.
    #[error("{0}")]
    BackendError(#[from] InfraError),
}

impl From<NameRunError> for CoordError {
    fn from(error: NameRunError) -> Self {
        match error {
            NameRunError::RunIdUsed { run } => RunIdUsed { run }.into(),
            NameRunError::LabelTooLarge { length } => LabelTooLarge { length }.into(),
            NameRunError::BackendError(error) => error.into(),
        }
    }
}

impl TryFrom<CoordError> for NameRunError {
    type Error = CoordError;

    fn try_from(error: CoordError) -> Result<Self, CoordError> {
        match error {
            CoordError::RunIdUsed(RunIdUsed { run }) => Ok(Self::RunIdUsed { run }),
            CoordError::LabelTooLarge(LabelTooLarge { length }) => {
                Ok(Self::LabelTooLarge { length })
            }
            CoordError::BackendError(error) => Ok(Self::BackendError(error)),
            other => Err(other),
        }
    }
}

/// Finding runs by their names. Every [`Backend`] can.
pub trait AsyncRunDirectory: Backend {
    /// The run to which a name points. It may not have been created yet, or be gone.
    fn find_run(
        &self,
        tenant: TenantId,
        name: RunName,
    ) -> impl Future<Output = Result<Option<RunId>, InfraError>> + Send {
        execute(self, tenant, FindRun { name })
    }

    /// Points the name of `label` to `run`, which must be new, if it still points to `instead_of`;
    /// gives the run to which it points afterwards.
    fn name_run(
        &self,
        tenant: TenantId,
        run: RunId,
        label: &RunLabel,
        instead_of: Option<RunId>,
    ) -> impl Future<Output = Result<RunId, NameRunError>> + Send {
        let description = &*label.description;
        let request = NameRun { run, name: label.name, description, instead_of }.into();
        async move { narrow::<_, NameRun<&[u8]>>(self.call(tenant, request).await) }
    }

    /// What a run is for, if it was given a name.
    fn label_of(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> impl Future<Output = Result<Option<RunLabel>, InfraError>> + Send {
        execute(self, tenant, LabelOf { run })
    }

    /// Every run that was given a name and is not gone, in the order of ids.
    fn list_labels(
        &self,
        tenant: TenantId,
    ) -> impl Future<Output = Result<Vec<(RunId, RunLabel)>, InfraError>> + Send {
        execute(self, tenant, ListLabels {})
    }
}

impl<B: Backend + ?Sized> AsyncRunDirectory for B {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_plain_and_no_hidden_file() {
        for name in ["a", "crates-1f", "A_b.c", &"x".repeat(40)] {
            assert_eq!(RunName::new(name).unwrap().as_str(), name);
            assert_eq!(RunName::new(name).unwrap().to_string(), name);
        }
        assert_eq!(RunName::new(""), Err(RunNameError::Length { length: 0 }));
        assert_eq!(RunName::new(&"x".repeat(41)), Err(RunNameError::Length { length: 41 }));
        assert_eq!(RunName::new(&"x".repeat(300)), Err(RunNameError::Length { length: 300 }));
        for name in [".", ".hidden", "a/b", "a b", "grün", "a\n"] {
            assert_eq!(RunName::new(name), Err(RunNameError::Characters), "{name}");
        }
    }

    #[test]
    fn names_are_in_the_order_of_their_letters() {
        let mut names = ["b", "a", "aa", "B"].map(|name| RunName::new(name).unwrap());
        names.sort();
        assert_eq!(names.map(|name| name.to_string()), ["B", "a", "aa", "b"]);
    }
}
