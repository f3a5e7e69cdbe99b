//! Rules: patterns of secrets.

mod allowlist;
mod draft;
mod error;
mod file;
mod pattern;
mod read;

use std::path::Path;

pub(crate) use allowlist::{Allowlist, Candidate};
pub use error::{RulePosition, RuleProblem, RulesError};
pub(crate) use pattern::Pattern;

/// The default rules, as a rule file.
pub(crate) const DEFAULT: &str = include_str!("default.toml");
/// The name of the default rules in errors.
pub(crate) const DEFAULT_NAME: &str = "the default rules";

/// A checked set of rules, merged from all its files.
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
    /// The pattern of a secret. Without it, the rule matches the path alone.
    pub(crate) pattern: Option<Pattern>,
    /// The capture group of the secret. 0 for the first group that matched, or the whole match.
    pub(crate) secret_group: usize,
    /// The entropy that a secret must exceed.
    pub(crate) entropy: Option<f64>,
    pub(crate) path: Option<Pattern>,
    /// In lower case.
    pub(crate) keywords: Vec<String>,
    pub(crate) allowlists: Vec<Allowlist>,
}

impl Rule {
    /// The id of the rule.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The description of the rule.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The tags of the rule.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Whether findings of specific rules replace those of this rule.
    pub(crate) fn is_generic(&self) -> bool {
        self.id.to_ascii_lowercase().contains("generic")
    }
}

impl RuleSet {
    /// The default rules.
    pub fn built_in() -> Result<Self, RulesError> {
        Self::parse(DEFAULT_NAME, DEFAULT, Path::new(""))
    }

    /// Reads a rule file and those that it extends.
    pub fn read(path: &Path) -> Result<Self, RulesError> {
        let drafts = read::from_path(path, 0)?;
        Self::finished(drafts, &path.display().to_string())
    }

    /// Reads rules from text. Errors call it `name`. Files that it extends are read from `folder`.
    pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Self, RulesError> {
        Self::finished(read::from_text(name, text, folder, 0)?, name)
    }

    /// Rejects an empty set, which could not find anything.
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

    /// The rule with an id.
    #[must_use]
    pub fn rule(&self, id: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    /// A digest that changes with everything that affects findings.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        digest_of(self)
    }
}

/// Raised when the same rules would find something else.
const VERSION: u64 = 1;

struct Writer(blake3::Hasher);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
    }

    fn texts<'t>(&mut self, texts: impl ExactSizeIterator<Item = &'t str>) {
        self.number(texts.len() as u64);
        texts.for_each(|text| self.text(text));
    }

    fn pattern(&mut self, pattern: Option<&Pattern>) {
        self.texts(pattern.map(|it| it.text.as_str()).as_slice().iter().copied());
    }

    fn allowlists(&mut self, allowlists: &[Allowlist]) {
        self.number(allowlists.len() as u64);
        for Allowlist { condition, target, paths, regexes, stopwords, rules } in allowlists {
            self.number(*condition as u64);
            self.number(*target as u64);
            self.texts(paths.iter().map(|it| it.text.as_str()));
            self.texts(regexes.iter().map(|it| it.text.as_str()));
            self.texts(stopwords.iter().map(String::as_str));
            self.number(u64::from(rules.is_some()));
            self.texts(rules.as_deref().unwrap_or_default().iter().map(String::as_str));
        }
    }

    fn rule(&mut self, rule: &Rule) {
        let Rule { id, description, tags, pattern, secret_group, entropy, .. } = rule;
        let Rule { path, keywords, allowlists, .. } = rule;
        self.text(id);
        self.text(description);
        self.texts(tags.iter().map(String::as_str));
        self.pattern(pattern.as_ref());
        self.number(*secret_group as u64);
        self.number(entropy.unwrap_or(-1.0).to_bits());
        self.pattern(path.as_ref());
        self.texts(keywords.iter().map(String::as_str));
        self.allowlists(allowlists);
    }
}

/// Digest of everything that affects findings.
fn digest_of(set: &RuleSet) -> [u8; 32] {
    let mut writer = Writer(blake3::Hasher::new_derive_key("shardwright/scan/v1/rules"));
    writer.number(VERSION);
    writer.number(set.rules.len() as u64);
    set.rules.iter().for_each(|rule| writer.rule(rule));
    writer.allowlists(&set.allowlists);
    *writer.0.finalize().as_bytes()
}

#[cfg(test)]
mod tests;
