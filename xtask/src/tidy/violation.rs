//! One broken rule at one place.

use std::fmt;
use std::path::{Path, PathBuf};

/// What is wrong where, and why it is a rule or what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    path: PathBuf,
    line: usize,
    what: String,
    why: String,
}

impl Violation {
    pub(crate) fn new(
        path: &Path,
        line: usize,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), why: why.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what, why } = self;
        write!(formatter, "{}:{line}: {what} — {why}", path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_reads_as_place_then_what_then_why() {
        let violation = Violation::new(Path::new("src/lib.rs"), 7, "std::fs", "no files here");
        assert_eq!(violation.to_string(), "src/lib.rs:7: std::fs — no files here");
    }
}
