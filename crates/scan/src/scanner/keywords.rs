//! The keywords of all rules, looked for in one go.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind, StartKind};

use crate::rules::{Place, Problem, RuleSet, RulesError};

/// With more keywords, tables that are quick to go through take too much memory.
const MOST_IN_TABLES: usize = 2_000;

/// The keywords of all rules.
#[derive(Debug)]
pub(super) struct Keywords {
    finder: Option<AhoCorasick>,
    /// Which rules have each keyword.
    rules: Vec<Vec<usize>>,
}

impl Keywords {
    pub(super) fn new(set: &RuleSet) -> Result<Self, RulesError> {
        let mut words: Vec<&str> =
            set.rules.iter().flat_map(|rule| &rule.keywords).map(String::as_str).collect();
        words.sort_unstable();
        words.dedup();
        if words.is_empty() {
            return Ok(Self { finder: None, rules: Vec::new() });
        }
        let having = |word: &str| {
            let rules = set.rules.iter().enumerate();
            let having = rules.filter(|(_, rule)| rule.keywords.iter().any(|it| it == word));
            having.map(|(index, _)| index).collect()
        };
        let rules = words.iter().map(|word| having(word)).collect();
        let kind = (words.len() <= MOST_IN_TABLES).then_some(AhoCorasickKind::DFA);
        let finder = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .start_kind(StartKind::Unanchored)
            .kind(kind)
            .build(&words)
            .map_err(|error| RulesError::At {
                place: Place { file: "the rules".into(), line: 1 },
                problem: Problem::Keywords(error.to_string()),
            })?;
        Ok(Self { finder: Some(finder), rules })
    }

    /// Calls back for each keyword that is there, by where it ends: with a rule that has it, and
    /// its beginning and end.
    pub(super) fn find(&self, bytes: &[u8], mut found: impl FnMut(usize, usize, usize)) {
        let Some(finder) = &self.finder else { return };
        for hit in finder.find_overlapping_iter(bytes) {
            let rules = self.rules.get(hit.pattern().as_usize()).map_or(&[][..], Vec::as_slice);
            rules.iter().for_each(|&rule| found(rule, hit.start(), hit.end()));
        }
    }
}
