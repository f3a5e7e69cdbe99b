//! Allowlists: what is not reported.

use memchr::memmem;

use super::pattern::Pattern;

/// Excludes findings, by the path of the file or by the match.
#[derive(Clone, Debug)]
pub(crate) struct Allowlist {
    pub(crate) condition: Condition,
    pub(crate) target: Target,
    pub(crate) paths: Vec<Pattern>,
    pub(crate) regexes: Vec<Pattern>,
    /// In lower case.
    pub(crate) stopwords: Vec<String>,
    /// The rules that it applies to. None for all.
    pub(crate) rules: Option<Vec<String>>,
}

/// Whether one kind of check suffices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Any,
    All,
}

/// What the patterns of an allowlist are matched against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Secret,
    Match,
    Line,
}

/// A match of a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) secret: &'a [u8],
    pub(crate) matched: &'a [u8],
    pub(crate) line: &'a [u8],
}

impl Allowlist {
    /// Whether it applies to a rule.
    pub(crate) fn applies_to(&self, rule: &str) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.iter().any(|it| it == rule))
    }

    /// Whether it excludes a whole file by its path.
    pub(crate) fn allows_file(&self, path: &[u8]) -> bool {
        let is_enough = match self.condition {
            Condition::Any => true,
            Condition::All => self.regexes.is_empty() && self.stopwords.is_empty(),
        };
        is_enough && self.rules.is_none() && self.allows_path(path)
    }

    fn allows_path(&self, path: &[u8]) -> bool {
        self.paths.iter().any(|pattern| pattern.is_match(path))
    }

    /// Whether it excludes a match in a file of this path.
    pub(crate) fn allows(&self, path: &[u8], candidate: Candidate<'_>) -> bool {
        let target = match self.target {
            Target::Secret => candidate.secret,
            Target::Match => candidate.matched,
            Target::Line => candidate.line,
        };
        let checks: [(bool, &dyn Fn() -> bool); 3] = [
            (self.paths.is_empty(), &|| self.allows_path(path)),
            (self.stopwords.is_empty(), &|| self.has_stopword(candidate.secret)),
            (self.regexes.is_empty(), &|| self.regexes.iter().any(|it| it.is_match(target))),
        ];
        let mut results = checks.iter().filter(|(is_empty, _)| !is_empty).map(|(_, check)| check());
        match self.condition {
            Condition::Any => results.any(|allows| allows),
            Condition::All => results.all(|allows| allows),
        }
    }

    fn has_stopword(&self, secret: &[u8]) -> bool {
        let secret = secret.to_ascii_lowercase();
        self.stopwords.iter().any(|word| memmem::find(&secret, word.as_bytes()).is_some())
    }
}
