//! What the rules find in one window.

use std::ops::Range;

use regex_automata::meta::Cache;
use regex_automata::{Anchored, Input, Match};

use super::Scanner;
use super::candidate::Found;
use super::position::{Locator, Position};
use super::reach::Reach;
use super::scratch::RuleScratch;
use crate::rules::{Pattern, Rule};

/// A part of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window<'w> {
    pub(super) path: &'w [u8],
    pub(super) bytes: &'w [u8],
    /// Where matches may begin. What lies before has been looked at, and is there to be looked
    /// back at; what lies behind is left to the next window.
    pub(super) fresh: (usize, usize),
    /// Where the window begins in the file.
    pub(super) offset: u64,
    pub(super) position: Position,
}

impl Scanner {
    /// Calls back with everything that the rules find in a window and no allowlist allows.
    pub(super) fn look(
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

    /// Finds the matches of one rule, none of which overlap.
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
            let behind_last = reached.saturating_sub(window.offset);
            let behind_last = usize::try_from(behind_last).unwrap_or(usize::MAX);
            let mut at = part.start.max(window.fresh.0).max(behind_last);
            // A match begins where the part does, or not at all.
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
                let it = secret.and_then(|it| self.judge(window, rule, matched, it, &mut locator));
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
