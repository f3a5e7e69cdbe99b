//! Rules: what a secret looks like.

mod allowlist;
mod digest;
mod draft;
mod error;
mod file;
mod pattern;
mod read;
#[cfg(test)]
mod tests;

use std::path::Path;

pub(crate) use allowlist::{Allowlist, Candidate};
pub use error::{Place, Problem, RulesError};
pub(crate) use pattern::Pattern;

/// The default rules, as a rule file.
pub const DEFAULT: &str = include_str!("default.toml");
/// What the default rules are called in errors.
pub(crate) const DEFAULT_NAME: &str = "the default rules";

/// Rules that were read, merged and checked.
#[derive(Clone, Debug)]
pub struct RuleSet {
    pub(crate) rules: Vec<Rule>,
    pub(crate) allowlists: Vec<Allowlist>,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(crate) id: String,
    pub(crate) description: String,
    pub(crate) tags: Vec<String>,
    /// What a secret looks like. Without it, a file's path is all that counts.
    pub(crate) pattern: Option<Pattern>,
    /// The group that is the secret; 0 for the first one that took part, or else all of it.
    pub(crate) secret_group: usize,
    /// A secret has to have more than this.
    pub(crate) entropy: Option<f64>,
    pub(crate) path: Option<Pattern>,
    /// In lower case.
    pub(crate) keywords: Vec<String>,
    pub(crate) allowlists: Vec<Allowlist>,
}

impl Rule {
    /// What it is called.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it finds.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Words that it is filed under.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Whether another rule that finds the same secret knows better what it is.
    pub(crate) fn is_generic(&self) -> bool {
        self.id.to_ascii_lowercase().contains("generic")
    }
}

impl RuleSet {
    /// The default rules.
    pub fn built_in() -> Result<Self, RulesError> {
        Self::parse(DEFAULT_NAME, DEFAULT, Path::new(""))
    }

    /// Reads a file and those that it extends.
    pub fn read(path: &Path) -> Result<Self, RulesError> {
        let drafts = read::from_path(path, 0)?;
        Self::finished(drafts, &path.display().to_string())
    }

    /// Reads rules from a text. `name` is what errors call it; files that it extends are looked
    /// for in `folder`.
    pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Self, RulesError> {
        Self::finished(read::from_text(name, text, folder, 0)?, name)
    }

    /// A file that does not find anything, whatever it is shown, is a mistake.
    fn finished(drafts: draft::Drafts, file: &str) -> Result<Self, RulesError> {
        let set = drafts.finish()?;
        if set.rules.is_empty() {
            return Err(RulesError::NoRules { file: file.to_owned() });
        }
        Ok(set)
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule of an id.
    #[must_use]
    pub fn rule(&self, id: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    /// Tells these rules from others: whatever changes what is found changes it.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        digest::of(self)
    }
}
