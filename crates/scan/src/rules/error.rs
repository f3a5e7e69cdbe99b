//! Why rules cannot be used.

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
        /// What the system said.
        error: io::Error,
    },
    /// A file, with those that it extends, has no rules: nothing would ever be found.
    #[error("there are no rules in {file}")]
    NoRules {
        /// The file.
        file: String,
    },
    /// Something in a file is wrong, or not supported.
    #[error("{position}: {problem}")]
    At {
        /// Where.
        position: RulePosition,
        /// What.
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
    /// It is no TOML, or has a field that is not known.
    #[error("{0}")]
    Syntax(String),
    /// A pattern does not compile.
    #[error("the pattern cannot be used: {0}")]
    Pattern(String),
    /// Gitleaks reads these as angle brackets, and we as the edges of words.
    #[error(r"`\<` and `\>` mean different things to different tools; write `<` and `>`")]
    AngleEscape,
    /// Something that Gitleaks knows and we do not.
    #[error("`{field}` is not supported: {why}")]
    Unsupported {
        /// The field.
        field: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// Two ways to say the same.
    #[error("say either `allowlist` or `allowlists`, not both")]
    TwoAllowlists,
    /// A rule has no id.
    #[error("the rule's id is empty")]
    NoId,
    /// Two rules of one file have the same id.
    #[error("there is a rule `{0}` above")]
    DuplicateRule(String),
    /// A rule can find nothing.
    #[error("the rule `{0}` has neither a regex nor a path")]
    FindsNothing(String),
    /// A pattern has too few groups.
    #[error("secretGroup is {group}, but the pattern has {groups} groups")]
    NoSuchGroup {
        /// The group.
        group: usize,
        /// How many there are.
        groups: usize,
    },
    /// Entropy is measured in bits per byte.
    #[error("entropy goes from 0 to 8")]
    BadEntropy,
    /// A keyword that every file contains.
    #[error("a keyword or stopword must not be empty")]
    EmptyWord,
    /// An allowlist allows nothing.
    #[error("the allowlist names no paths, regexes or stopwords")]
    EmptyAllowlist,
    /// A word that is not one of a few.
    #[error("`{found}` is not one of {known}")]
    UnknownWord {
        /// The word.
        found: String,
        /// The few.
        known: &'static str,
    },
    /// A list of rules names one that is not there.
    #[error("there is no rule `{0}`")]
    UnknownRule(String),
    /// Files that extend one another.
    #[error("rule files extend one another more than {0} deep")]
    TooDeep(usize),
    /// The patterns together are too large.
    #[error("the keywords cannot be used: {0}")]
    Keywords(String),
}
