//! Telling rules from others.

use super::{Allowlist, Pattern, Rule, RuleSet};

/// Raised when the same rules come to find something else.
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

pub(super) fn of(set: &RuleSet) -> [u8; 32] {
    let mut writer = Writer(blake3::Hasher::new_derive_key("shardwright/scan/v1/rules"));
    writer.number(VERSION);
    writer.number(set.rules.len() as u64);
    set.rules.iter().for_each(|rule| writer.rule(rule));
    writer.allowlists(&set.allowlists);
    *writer.0.finalize().as_bytes()
}
