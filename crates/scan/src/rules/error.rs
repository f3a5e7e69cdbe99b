//! Errors of rule files.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Why rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// A file cannot be read.
    #[error("{file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A file and those that it extends have no rules.
    #[error("there are no rules in {file}")]
    NoRules {
        /// The file.
        file: String,
    },
    /// A line of a file is invalid or not supported.
    #[error("{position}: {problem}")]
    At {
        /// The line.
        position: RulePosition,
        /// The problem.
        problem: RuleProblem,
    },
}

/// A line of a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePosition {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: usize,
}

impl fmt::Display for RulePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What is wrong with a line of a rule file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleProblem {
    /// Invalid TOML, or an unknown field.
    #[error("{0}")]
    Syntax(String),
    /// A pattern does not compile.
    #[error("the pattern cannot be used: {0}")]
    Pattern(String),
    /// Angle brackets in Gitleaks, word boundaries here.
    #[error(r"`\<` and `\>` mean different things to different tools; write `<` and `>`")]
    AngleEscape,
    /// A field of Gitleaks that is not supported.
    #[error("`{field}` is not supported: {why}")]
    Unsupported {
        /// The field.
        field: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// Both forms of the same field.
    #[error("use either `allowlist` or `allowlists`, not both")]
    TwoAllowlists,
    /// A rule has no id.
    #[error("the rule's id is empty")]
    NoId,
    /// Two rules of one file have the same id.
    #[error("there is a rule `{0}` above")]
    DuplicateRule(String),
    /// A rule without regex and path.
    #[error("the rule `{0}` has neither a regex nor a path")]
    FindsNothing(String),
    /// A capture group that the pattern does not have.
    #[error("secretGroup is {group}, but the pattern has {groups} groups")]
    NoSuchGroup {
        /// The group.
        group: usize,
        /// Number of groups.
        groups: usize,
    },
    /// Entropy out of range: it is measured in bits per byte.
    #[error("entropy must be between 0 and 8")]
    BadEntropy,
    /// An empty keyword or stopword.
    #[error("a keyword or stopword must not be empty")]
    EmptyWord,
    /// An allowlist without conditions.
    #[error("the allowlist names no paths, regexes or stopwords")]
    EmptyAllowlist,
    /// An unknown value of a field.
    #[error("`{found}` is not one of {known}")]
    UnknownWord {
        /// The value.
        found: String,
        /// The known values.
        known: &'static str,
    },
    /// A reference to a rule that does not exist.
    #[error("there is no rule `{0}`")]
    UnknownRule(String),
    /// Too many levels of files that extend one another.
    #[error("rule files extend one another more than {0} levels deep")]
    TooDeep(usize),
    /// The keywords cannot be compiled.
    #[error("the keywords cannot be used: {0}")]
    Keywords(String),
}
