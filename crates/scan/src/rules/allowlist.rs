//! What is not to be reported.

use memchr::memmem;

use super::pattern::Pattern;

/// What is not to be reported, by the file's path or by what was found.
#[derive(Clone, Debug)]
pub(crate) struct Allowlist {
    pub(crate) condition: Condition,
    pub(crate) target: Target,
    pub(crate) paths: Vec<Pattern>,
    pub(crate) regexes: Vec<Pattern>,
    /// In lower case.
    pub(crate) stopwords: Vec<String>,
    /// The only rules it is for, if it is not for all.
    pub(crate) rules: Option<Vec<String>>,
}

/// Whether one kind of check is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Any,
    All,
}

/// What an allowlist's patterns are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Secret,
    Match,
    Line,
}

/// Something a rule has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) secret: &'a [u8],
    pub(crate) matched: &'a [u8],
    pub(crate) line: &'a [u8],
}

impl Allowlist {
    /// Whether it is for a rule.
    pub(crate) fn concerns(&self, rule: &str) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.iter().any(|it| it == rule))
    }

    /// Whether nothing in a file of this path can be worth a report.
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

    /// Whether what was found in a file of this path is no secret.
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
        let mut said = checks.iter().filter(|(is_unsaid, _)| !is_unsaid).map(|(_, check)| check());
        match self.condition {
            Condition::Any => said.any(|allows| allows),
            Condition::All => said.all(|allows| allows),
        }
    }

    fn has_stopword(&self, secret: &[u8]) -> bool {
        let secret = secret.to_ascii_lowercase();
        self.stopwords.iter().any(|word| memmem::find(&secret, word.as_bytes()).is_some())
    }
}
