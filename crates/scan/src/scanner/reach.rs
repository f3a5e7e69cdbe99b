//! How far from a keyword a match can be.
//!
//! Gitleaks searches the whole file if it contains a keyword. If every match of a pattern contains
//! one of its keywords, searching around keywords finds the same. If every match starts with one,
//! searching at keywords does.

use std::ops::Range;

use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Class, Hir, HirKind};

use crate::rules::{Pattern, Rule};

/// Most literal prefixes of a pattern that are checked.
const SPELLINGS: usize = 1_024;

/// Where a rule must be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Nowhere: it has no pattern.
    Nowhere,
    /// Everywhere, in every file.
    Everywhere,
    /// Everywhere in a window that contains a keyword.
    WithKeyword,
    /// Around keywords: every match contains one, and is at most `longest` bytes.
    Around {
        /// The longest match, in bytes.
        longest: usize,
    },
    /// At keywords: every match starts with one, and is at most `longest` bytes.
    At {
        /// The longest match, in bytes.
        longest: usize,
    },
}

impl Reach {
    /// The reach of a rule, if no match is longer than `longest`.
    pub(super) fn of(rule: &Rule, longest: usize) -> Self {
        let Some(Pattern { hir, .. }) = &rule.pattern else { return Self::Nowhere };
        if rule.keywords.is_empty() {
            return Self::Everywhere;
        }
        let longest = hir.properties().maximum_len().map_or(longest, |most| most.min(longest));
        if begins_with_keyword(hir, &rule.keywords) {
            Self::At { longest }
        } else if holds_keyword(hir, &rule.keywords) {
            Self::Around { longest }
        } else {
            Self::WithKeyword
        }
    }
}

fn starts_with_keyword(text: &[u8], keywords: &[String]) -> bool {
    let text = text.to_ascii_lowercase();
    keywords.iter().any(|word| text.starts_with(word.as_bytes()))
}

/// Whether every match starts with a keyword, ignoring case. False negatives are possible.
fn begins_with_keyword(hir: &Hir, keywords: &[String]) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => false,
        HirKind::Literal(literal) => starts_with_keyword(&literal.0, keywords),
        HirKind::Capture(capture) => begins_with_keyword(&capture.sub, keywords),
        HirKind::Repetition(repeated) => {
            repeated.min > 0 && begins_with_keyword(&repeated.sub, keywords)
        }
        HirKind::Alternation(branches) => {
            branches.iter().all(|branch| begins_with_keyword(branch, keywords))
        }
        HirKind::Concat(parts) => {
            let is_look = |part: &Hir| matches!(part.kind(), HirKind::Look(_));
            let looks = parts.iter().take_while(|part| is_look(part)).count();
            let parts = parts.get(looks..).unwrap_or_default();
            parts.first().is_some_and(|first| begins_with_keyword(first, keywords))
                || starts_with_keyword(&first_run(parts), keywords)
                || all_spellings(parts, |spelling| starts_with_keyword(spelling, keywords))
        }
    }
}

/// The literal prefix of all matches of some parts, in lower case where both cases match.
fn first_run(parts: &[Hir]) -> Vec<u8> {
    let mut run = Vec::new();
    for part in parts {
        match part.kind() {
            HirKind::Literal(literal) => run.extend_from_slice(&literal.0),
            HirKind::Class(class) => match single_letter(class) {
                Some(letter) => run.push(letter),
                None => break,
            },
            _ => break,
        }
    }
    run
}

fn has_keyword(text: &[u8], keywords: &[String]) -> bool {
    let text = text.to_ascii_lowercase();
    keywords.iter().any(|word| memchr::memmem::find(&text, word.as_bytes()).is_some())
}

/// Whether every match contains a keyword, ignoring case. False negatives are possible.
fn holds_keyword(hir: &Hir, keywords: &[String]) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => false,
        HirKind::Literal(literal) => has_keyword(&literal.0, keywords),
        HirKind::Capture(capture) => holds_keyword(&capture.sub, keywords),
        HirKind::Repetition(repeated) => repeated.min > 0 && holds_keyword(&repeated.sub, keywords),
        HirKind::Alternation(branches) => {
            branches.iter().all(|branch| holds_keyword(branch, keywords))
        }
        HirKind::Concat(parts) => {
            parts.iter().any(|part| holds_keyword(part, keywords))
                || runs_hold_keyword(parts, keywords)
                || beginnings_hold_keyword(parts, keywords)
        }
    }
}

/// Whether consecutive literals contain a keyword.
fn runs_hold_keyword(parts: &[Hir], keywords: &[String]) -> bool {
    (0..parts.len())
        .any(|from| has_keyword(&first_run(parts.get(from..).unwrap_or_default()), keywords))
}

/// The letter, if a class is both cases of one letter.
fn single_letter(class: &Class) -> Option<u8> {
    let Class::Bytes(class) = class else { return None };
    let mut bytes = class.iter().flat_map(|range| range.start()..=range.end());
    let first = bytes.next()?.to_ascii_lowercase();
    bytes.all(|byte| byte.to_ascii_lowercase() == first).then_some(first)
}

/// Whether all literal prefixes of some rest of the parts contain a keyword.
fn beginnings_hold_keyword(parts: &[Hir], keywords: &[String]) -> bool {
    (0..parts.len()).any(|from| {
        let rest = parts.get(from..).unwrap_or_default();
        all_spellings(rest, |spelling| has_keyword(spelling, keywords))
    })
}

/// Whether a predicate holds for all literal prefixes of some parts.
fn all_spellings(parts: &[Hir], holds: impl Fn(&[u8]) -> bool) -> bool {
    let mut extractor = Extractor::new();
    extractor.limit_total(SPELLINGS).limit_class(16).limit_repeat(4);
    let spellings = extractor.extract(&Hir::concat(parts.to_vec()));
    let spellings = spellings.literals().unwrap_or_default();
    !spellings.is_empty() && spellings.iter().all(|spelling| holds(spelling.as_bytes()))
}

/// Parts of a window to search: disjoint, or one per keyword for [`Reach::At`].
#[derive(Debug, Default)]
pub(super) struct Area {
    parts: Vec<Range<usize>>,
}

impl Area {
    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Sorts the parts by their start. They were added in the order of keyword ends.
    pub(super) fn sort(&mut self) {
        if !self.parts.is_sorted_by_key(|part| part.start) {
            self.parts.sort_by_key(|part| part.start);
        }
    }

    pub(super) fn parts(&self) -> &[Range<usize>] {
        &self.parts
    }

    /// Adds the part that a rule of this reach must search because of a keyword. Keywords must be
    /// added in the order of their ends.
    pub(super) fn add(&mut self, reach: Reach, keyword: Range<usize>, window: usize) {
        let part = match reach {
            Reach::Nowhere => return,
            Reach::Everywhere | Reach::WithKeyword => 0..window,
            Reach::Around { longest } => {
                let start = keyword.end.saturating_sub(longest);
                start..keyword.start.saturating_add(longest).min(window)
            }
            // Keywords with the same start are one part. They are consecutive.
            Reach::At { .. } if self.parts.last().is_some_and(|it| it.start == keyword.start) => {
                return;
            }
            Reach::At { longest } => {
                let end = keyword.start.saturating_add(longest).min(window);
                self.parts.push(keyword.start..end);
                return;
            }
        };
        match self.parts.last_mut() {
            // With the same reach, a later end means a later start.
            Some(last) if last.end >= part.start => last.end = last.end.max(part.end),
            _ => self.parts.push(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(pattern: &str, keywords: &[&str]) -> bool {
        let keywords: Vec<String> = keywords.iter().map(|&word| word.to_owned()).collect();
        holds_keyword(&Pattern::new(pattern).unwrap().hir, &keywords)
    }

    #[test]
    fn patterns_that_always_contain_a_keyword_are_recognized() {
        for (pattern, keywords) in [
            (r"\b(AKIA[A-Z]{16})\b", &["akia"][..]),
            (r"(?i)pass(?:word)?\s=", &["pass"]),
            (r"(?i)(?:secret|token)=\w+", &["secret", "token"]),
            (r"gh[op]_\w{36}", &["ghp_", "gho_"]),
            (r"(?:x(?:sk|rk)_live_)+", &["_live_"]),
            (r"\w{3,9}(?i:-----BEGIN)", &["begin"]),
        ] {
            assert!(holds(pattern, keywords), "{pattern}");
        }
    }

    #[test]
    fn patterns_that_always_start_with_a_keyword_are_recognized() {
        let begins = |pattern: &str, keywords: &[&str]| {
            let keywords: Vec<String> = keywords.iter().map(|&word| word.to_owned()).collect();
            begins_with_keyword(&Pattern::new(pattern).unwrap().hir, &keywords)
        };
        for (pattern, keywords) in [
            (r"\b(AKIA[A-Z]{16})\b", &["akia"][..]),
            (r"(?i)^\b(?:secret|password|passwd)=\w+", &["secret", "password", "passwd"]),
            (r"gh[op]_\w{36}", &["ghp_", "gho_"]),
            (r"(?:rk|sk)_(?:live|prod)_", &["sk_live_", "rk_live_", "sk_prod_", "rk_prod_"]),
            (r"(?:abc)+", &["abc"]),
        ] {
            assert!(begins(pattern, keywords), "{pattern}");
        }
        for (pattern, keywords) in [
            (r"xAKIA", &["akia"][..]),
            (r"x?AKIA", &["akia"]),
            (r"(?:secret|my_secret)=", &["secret"]),
            (r"\s*secret", &["secret"]),
            (r"(?:secret)?abc", &["secret"]),
        ] {
            assert!(!begins(pattern, keywords), "{pattern}");
        }
    }

    #[test]
    fn patterns_that_match_without_a_keyword_are_not_recognized() {
        for (pattern, keywords) in [
            (r"[0-9a-f]{32}", &["twilio"][..]),
            (r"(?:secret|other)=\w+", &["secret"]),
            (r"(?:secret)?=\w+", &["secret"]),
            (r"gh[op]_\w{36}", &["ghp_"]),
            (r"sec.?ret", &["secret"]),
            (r"", &["secret"]),
        ] {
            assert!(!holds(pattern, keywords), "{pattern}");
        }
    }

    #[test]
    fn touching_parts_are_merged() {
        let mut area = Area::default();
        let around = Reach::Around { longest: 10 };
        area.add(around, 12..15, 100);
        area.add(around, 20..25, 100);
        area.add(around, 90..95, 100);
        assert_eq!(area.parts(), [5..30, 85..100]);
        area.add(Reach::WithKeyword, 96..97, 100);
        assert_eq!(area.parts(), [5..30, 85..100]);
        area.clear();
        area.add(Reach::WithKeyword, 96..97, 100);
        area.add(Reach::WithKeyword, 97..98, 100);
        assert_eq!(area.parts(), std::slice::from_ref(&(0..100)));
    }

    #[test]
    fn parts_at_keywords_are_sorted_by_start() {
        let (mut area, at) = (Area::default(), Reach::At { longest: 10 });
        for keyword in [5..8, 5..9, 7..10, 3..20, 95..99] {
            area.add(at, keyword, 100);
        }
        area.sort();
        assert_eq!(area.parts(), [3..13, 5..15, 7..17, 95..100]);
    }
}
