//! Matching the rules in one window.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind, StartKind};
use regex_automata::meta::Cache;
use regex_automata::{Anchored, Input, Match};

use super::RuleScratch;
use super::Scanner;
use super::candidate::Found;
use super::candidate::{Locator, Position};
use super::reach::Reach;
use crate::rules::{Pattern, Rule, RulePosition, RuleProblem, RuleSet, RulesError};

/// A part of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window<'w> {
    pub(super) path: &'w [u8],
    pub(super) bytes: &'w [u8],
    /// Where matches may start. Bytes before it were searched, and are context. A match that starts
    /// after it is left to the next window.
    pub(super) fresh: (usize, usize),
    /// Offset of the window in the file.
    pub(super) offset: u64,
    pub(super) position: Position,
}

impl Scanner {
    /// Calls `found` for each finding in a window.
    pub(super) fn search(
        &self,
        window: Window<'_>,
        rules: &mut [RuleScratch],
        mut found: impl FnMut(usize, Found),
    ) {
        for rule in &mut *rules {
            rule.area.clear();
        }
        let length = window.bytes.len();
        self.keywords.find(window.bytes, |rule, start, end| {
            if let (Some(scratch), Some(&reach)) = (rules.get_mut(rule), self.reaches.get(rule)) {
                scratch.area.add(reach, start..end, length);
            }
        });
        let each = self.set.rules.iter().zip(&self.reaches).zip(rules).enumerate();
        for (index, ((rule, &reach), scratch)) in each {
            if reach == Reach::Everywhere {
                scratch.area.add(reach, 0..0, length);
            }
            if scratch.area.is_empty() {
                continue;
            }
            let Some(pattern) = &rule.pattern else { continue };
            if rule.path.as_ref().is_some_and(|path| !path.is_match(window.path)) {
                continue;
            }
            let anchored = match reach {
                Reach::At { .. } => Anchored::Yes,
                _ => Anchored::No,
            };
            scratch.area.sort();
            self.match_rule(window, rule, pattern, anchored, scratch, &mut |it| found(index, it));
        }
    }

    /// Finds the matches of one rule, which do not overlap.
    fn match_rule(
        &self,
        window: Window<'_>,
        rule: &Rule,
        pattern: &Pattern,
        anchored: Anchored,
        scratch: &mut RuleScratch,
        found: &mut impl FnMut(Found),
    ) {
        let RuleScratch { area, reached, cache } = scratch;
        let cache = cache.get_or_insert_with(|| pattern.regex.create_cache());
        let mut locator = Locator::new(window.bytes, window.position);
        for part in area.parts() {
            let after_last = reached.saturating_sub(window.offset);
            let after_last = usize::try_from(after_last).unwrap_or(usize::MAX);
            let mut at = part.start.max(window.fresh.0).max(after_last);
            // An anchored match starts where the part starts.
            if anchored == Anchored::Yes && at > part.start {
                continue;
            }
            while at < part.end {
                let input = Input::new(window.bytes).span(at..part.end).anchored(anchored);
                let Some(matched) = pattern.regex.search_with(cache, &input) else { break };
                if matched.start() >= window.fresh.1 {
                    return;
                }
                at = matched.end();
                if matched.is_empty() {
                    at += 1;
                    continue;
                }
                *reached = window.offset + at as u64;
                let secret = secret(window.bytes, rule, pattern, cache, matched, part.end);
                let it =
                    secret.and_then(|it| self.finding(window, rule, matched, it, &mut locator));
                if let Some(it) = it {
                    found(it);
                }
                if anchored == Anchored::Yes {
                    break;
                }
            }
        }
    }
}

/// The part of a match that is the secret.
fn secret(
    bytes: &[u8],
    rule: &Rule,
    pattern: &Pattern,
    cache: &mut Cache,
    matched: Match,
    end: usize,
) -> Option<Range<usize>> {
    if pattern.groups() == 0 {
        return Some(matched.range());
    }
    let mut groups = pattern.regex.create_captures();
    let input = Input::new(bytes).span(matched.start()..end).anchored(Anchored::Yes);
    pattern.regex.search_captures_with(cache, &input, &mut groups);
    let group = |number: usize| groups.get_group(number).map(|span| span.range());
    let chosen = match rule.secret_group {
        0 => (1..=pattern.groups()).filter_map(group).find(|range| !range.is_empty()),
        number => return group(number).filter(|range| !range.is_empty()),
    };
    chosen.or(Some(matched.range()))
}

/// With more keywords, a DFA takes too much memory.
const MOST_IN_TABLES: usize = 2_000;

/// The keywords of all rules.
#[derive(Debug)]
pub(super) struct Keywords {
    finder: Option<AhoCorasick>,
    /// The rules of each keyword.
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
                position: RulePosition { file: "the rules".into(), line: 1 },
                problem: RuleProblem::Keywords(error.to_string()),
            })?;
        Ok(Self { finder: Some(finder), rules })
    }

    /// Calls `found` with rule, start and end for each occurrence of a keyword, ordered by its end.
    pub(super) fn find(&self, bytes: &[u8], mut found: impl FnMut(usize, usize, usize)) {
        let Some(finder) = &self.finder else { return };
        for hit in finder.find_overlapping_iter(bytes) {
            let rules = self.rules.get(hit.pattern().as_usize()).map_or(&[][..], Vec::as_slice);
            rules.iter().for_each(|&rule| found(rule, hit.start(), hit.end()));
        }
    }
}
