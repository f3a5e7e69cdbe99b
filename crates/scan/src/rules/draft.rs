//! Rules while they are merged from several files.

use super::error::{RulePosition, RuleProblem, RulesError};
use super::{Allowlist, Pattern, Rule, RuleSet};

/// A value and its position in a rule file.
#[derive(Clone, Debug)]
pub(super) struct Located<T> {
    pub(super) position: RulePosition,
    pub(super) value: T,
}

impl<T> Located<T> {
    pub(super) fn error(&self, problem: RuleProblem) -> RulesError {
        RulesError::At { position: self.position.clone(), problem }
    }
}

/// The fields of a rule in one file.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) id: Located<String>,
    pub(super) description: Option<String>,
    pub(super) pattern: Option<Pattern>,
    pub(super) secret_group: Option<Located<usize>>,
    pub(super) entropy: Option<f64>,
    pub(super) path: Option<Pattern>,
    pub(super) keywords: Vec<String>,
    pub(super) tags: Vec<String>,
    pub(super) allowlists: Vec<Allowlist>,
}

impl Draft {
    /// Merges the same rule of a later file: single values are replaced, lists are extended.
    fn amend(&mut self, later: Self) {
        self.id.position = later.id.position;
        self.description = later.description.or(self.description.take());
        self.pattern = later.pattern.or(self.pattern.take());
        self.secret_group = later.secret_group.or(self.secret_group.take());
        self.entropy = later.entropy.or(self.entropy);
        self.path = later.path.or(self.path.take());
        self.keywords.extend(later.keywords);
        self.tags.extend(later.tags);
        self.allowlists.extend(later.allowlists);
    }

    fn finish(self) -> Result<Rule, RulesError> {
        if self.pattern.is_none() && self.path.is_none() {
            return Err(self.id.error(RuleProblem::FindsNothing(self.id.value.clone())));
        }
        let groups = self.pattern.as_ref().map_or(0, Pattern::groups);
        if let Some(group) = &self.secret_group
            && group.value > groups
        {
            return Err(group.error(RuleProblem::NoSuchGroup { group: group.value, groups }));
        }
        let mut keywords = self.keywords;
        keywords.sort();
        keywords.dedup();
        Ok(Rule {
            description: self.description.unwrap_or_else(|| self.id.value.clone()),
            id: self.id.value,
            tags: self.tags,
            pattern: self.pattern,
            secret_group: self.secret_group.map_or(0, |group| group.value),
            // In Gitleaks, zero means no limit.
            entropy: self.entropy.filter(|&bits| bits > 0.0),
            path: self.path,
            keywords,
            allowlists: self.allowlists,
        })
    }
}

/// The rules of a file and of those it extends.
#[derive(Clone, Debug, Default)]
pub(super) struct Drafts {
    rules: Vec<Draft>,
    allowlists: Vec<Located<Allowlist>>,
}

impl Drafts {
    /// Removes a rule.
    pub(super) fn disable(&mut self, id: &Located<String>) -> Result<(), RulesError> {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.id.value != id.value);
        if self.rules.len() < before {
            return Ok(());
        }
        Err(id.error(RuleProblem::UnknownRule(id.value.clone())))
    }

    /// Adds the rules of a file. Rules of earlier files are amended.
    pub(super) fn add(&mut self, rules: Vec<Draft>) -> Result<(), RulesError> {
        for (index, rule) in rules.iter().enumerate() {
            let earlier = rules.get(..index).unwrap_or_default();
            if earlier.iter().any(|it| it.id.value == rule.id.value) {
                return Err(rule.id.error(RuleProblem::DuplicateRule(rule.id.value.clone())));
            }
        }
        for rule in rules {
            match self.rules.iter_mut().find(|it| it.id.value == rule.id.value) {
                Some(before) => before.amend(rule),
                None => self.rules.push(rule),
            }
        }
        Ok(())
    }

    pub(super) fn allow(&mut self, allowlists: Vec<Located<Allowlist>>) {
        self.allowlists.extend(allowlists);
    }

    /// Checks references between rules and allowlists, and builds the set.
    pub(super) fn finish(self) -> Result<RuleSet, RulesError> {
        for allowlist in &self.allowlists {
            for id in allowlist.value.rules.iter().flatten() {
                if !self.rules.iter().any(|rule| rule.id.value == *id) {
                    return Err(allowlist.error(RuleProblem::UnknownRule(id.clone())));
                }
            }
        }
        Ok(RuleSet {
            rules: self.rules.into_iter().map(Draft::finish).collect::<Result<_, _>>()?,
            allowlists: self.allowlists.into_iter().map(|it| it.value).collect(),
        })
    }
}
