//! The keywords of all rules, looked for in one go.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind, StartKind};

use super::triples::Triples;
use crate::rules::{Place, Problem, RuleSet, RulesError};

/// With more keywords, tables that are quick to go through take too much memory.
const MOST_IN_TABLES: usize = 2_000;

/// The keywords of all rules.
#[derive(Debug)]
pub(super) struct Keywords {
    finder: Finder,
    /// Which rules have each keyword.
    rules: Vec<Vec<usize>>,
}

#[derive(Debug)]
enum Finder {
    /// Quicker.
    Triples(Triples),
    /// For keywords of one or two letters, and very many.
    Automaton(AhoCorasick),
}

impl Keywords {
    pub(super) fn new(set: &RuleSet) -> Result<Self, RulesError> {
        let mut words: Vec<&str> =
            set.rules.iter().flat_map(|rule| &rule.keywords).map(String::as_str).collect();
        words.sort_unstable();
        words.dedup();
        let having = |word: &str| {
            let rules = set.rules.iter().enumerate();
            let having = rules.filter(|(_, rule)| rule.keywords.iter().any(|it| it == word));
            having.map(|(index, _)| index).collect()
        };
        let rules = words.iter().map(|word| having(word)).collect();
        let triples = Some(&words).filter(|words| words.len() <= MOST_IN_TABLES);
        let finder = match triples.and_then(|words| Triples::new(words)) {
            Some(triples) => Finder::Triples(triples),
            None => Finder::Automaton(automaton(&words)?),
        };
        Ok(Self { finder, rules })
    }

    /// Calls back for each keyword that is there: with a rule that has it, and its beginning and
    /// end.
    pub(super) fn find(&self, bytes: &[u8], mut found: impl FnMut(usize, usize, usize)) {
        let mut tell = |word: usize, start: usize, end: usize| {
            let rules = self.rules.get(word).map_or(&[][..], Vec::as_slice);
            rules.iter().for_each(|&rule| found(rule, start, end));
        };
        match &self.finder {
            Finder::Triples(triples) => triples.find(bytes, tell),
            Finder::Automaton(automaton) => automaton
                .find_overlapping_iter(bytes)
                .for_each(|hit| tell(hit.pattern().as_usize(), hit.start(), hit.end())),
        }
    }
}

fn automaton(words: &[&str]) -> Result<AhoCorasick, RulesError> {
    let kind = (words.len() <= MOST_IN_TABLES).then_some(AhoCorasickKind::DFA);
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .start_kind(StartKind::Unanchored)
        .kind(kind)
        .build(words)
        .map_err(|error| RulesError::At {
            place: Place { file: "the rules".into(), line: 1 },
            problem: Problem::Keywords(error.to_string()),
        })
}
