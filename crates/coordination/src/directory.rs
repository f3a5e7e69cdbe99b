//! Names of runs, and their descriptions.
//!
//! A run id is never reused. A user who starts the same work again expects the existing run. So a
//! *name* points to a run, and can be moved to a new one. The description of a run (its source, its
//! command) is stored as bytes that only its creator interprets. Names and descriptions do not
//! affect the ownership of shards.

use std::fmt;
use std::future::Future;

use shardwright_contracts::limits::MAX_RUN_NAME_SIZE;
use shardwright_contracts::{Redacted, RunId, TenantId};

use crate::backend::{Backend, execute};
use crate::error::reason::{LabelTooLarge, RunIdUsed};
use crate::error::{CoordError, InfraError};
use crate::operation::{FindRun, LabelOf, ListLabels, NameRun, narrow};

/// The name of a run: 1 to 40 ASCII letters, digits, `-`, `_` and `.`, without a leading dot.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunName {
    bytes: [u8; MAX_RUN_NAME_SIZE],
    len: u8,
}

/// Why a name is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunNameError {
    /// It is empty or too long.
    #[error("a run's name has 1 to {max} characters, not {length}", max = MAX_RUN_NAME_SIZE)]
    Length {
        /// Its length.
        length: usize,
    },
    /// It has a character that is not allowed, or a leading dot.
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

/// The name and the description of a run.
#[derive(Clone, PartialEq, Eq)]
pub struct RunLabel {
    /// Its name.
    pub name: RunName,
    /// Its description, which only its creator interprets.
    pub description: Box<[u8]>,
}

impl fmt::Debug for RunLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, description } = self;
        let description = Redacted(description);
        f.debug_struct("RunLabel").field("name", name).field("description", &description).finish()
    }
}

/// Why a run was not named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameRunError {
    /// The run id is or was in use.
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
    /// The store or the network failed.
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

/// Finding runs by name. Every [`Backend`] implements it.
pub trait AsyncRunDirectory: Backend {
    /// The run to which a name points. The run may be deleted, or not created yet.
    fn find_run(
        &self,
        tenant: TenantId,
        name: RunName,
    ) -> impl Future<Output = Result<Option<RunId>, InfraError>> + Send {
        execute(self, tenant, FindRun { name })
    }

    /// Points the name of `label` to the new run `run`, if the name still points to `instead_of`.
    /// Returns the run to which it points afterwards.
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

    /// The label of a run, if it was named.
    fn label_of(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> impl Future<Output = Result<Option<RunLabel>, InfraError>> + Send {
        execute(self, tenant, LabelOf { run })
    }

    /// The labels of all named runs that exist, in the order of run ids.
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
    fn run_name_is_short_and_has_no_leading_dot() {
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
    fn run_names_sort_alphabetically() {
        let mut names = ["b", "a", "aa", "B"].map(|name| RunName::new(name).unwrap());
        names.sort();
        assert_eq!(names.map(|name| name.to_string()), ["B", "a", "aa", "b"]);
    }
}
