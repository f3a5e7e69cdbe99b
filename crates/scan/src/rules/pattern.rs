//! Patterns with the semantics of Gitleaks.
//!
//! Its patterns are those of Go: `\w`, `\d`, `\s` and `\b` are ASCII only. Here they match bytes,
//! so a file need not be valid UTF-8.

use regex_automata::meta;
use regex_automata::util::syntax;
use regex_syntax::ast::{self, AssertionKind, Ast, Visitor};
use regex_syntax::hir::Hir;

use super::error::RuleProblem;

/// Memory limit of a compiled pattern.
const SIZE_LIMIT: usize = 64 << 20;
/// Memory limit of a pattern's lazy DFA.
const CACHE_CAPACITY: usize = 4 << 20;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    pub(crate) regex: meta::Regex,
    pub(crate) hir: Hir,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self, RuleProblem> {
        let invalid = |error: String| RuleProblem::Pattern(readable(&error));
        let syntax = ast::parse::ParserBuilder::new().build().parse(text);
        let syntax = syntax.map_err(|error| invalid(error.to_string()))?;
        ast::visit(&syntax, AngleEscapes)?;
        let mut translator = regex_syntax::hir::translate::TranslatorBuilder::new()
            .utf8(false)
            .unicode(false)
            .build();
        let hir =
            translator.translate(text, &syntax).map_err(|error| invalid(error.to_string()))?;
        let regex = meta::Regex::builder()
            .configure(
                meta::Config::new()
                    .nfa_size_limit(Some(SIZE_LIMIT))
                    .hybrid_cache_capacity(CACHE_CAPACITY)
                    .utf8_empty(false),
            )
            .syntax(syntax::Config::new().utf8(false).unicode(false))
            .build_from_hir(&hir)
            .map_err(|error| invalid(with_cause(&error)))?;
        Ok(Self { text: text.to_owned(), regex, hir })
    }

    /// Number of capture groups, without the whole match.
    pub(crate) fn groups(&self) -> usize {
        self.regex.captures_len().saturating_sub(1)
    }

    pub(crate) fn is_match(&self, bytes: &[u8]) -> bool {
        self.regex.is_match(bytes)
    }
}

fn with_cause(error: &(dyn std::error::Error + 'static)) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// The last line of a multi-line error, which has the reason.
fn readable(error: &str) -> String {
    let last = error.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(error);
    last.trim().trim_start_matches("error: ").to_owned()
}

/// Finds `\<` and `\>`, which are plain angle brackets in Go.
struct AngleEscapes;

impl Visitor for AngleEscapes {
    type Output = ();
    type Err = RuleProblem;

    fn finish(self) -> Result<(), RuleProblem> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), RuleProblem> {
        match ast {
            Ast::Assertion(assertion)
                if matches!(
                    assertion.kind,
                    AssertionKind::WordBoundaryStartAngle | AssertionKind::WordBoundaryEndAngle
                ) =>
            {
                Err(RuleProblem::AngleEscape)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_ascii_and_bytes_need_not_be_utf8() {
        assert!(Pattern::new(r"^\w{2}$").unwrap().is_match(b"ab"));
        assert!(!Pattern::new(r"^\w+$").unwrap().is_match("\u{e9}".as_bytes()));
        assert!(Pattern::new(r"k.y").unwrap().is_match(b"k\xffy"));
        assert!(Pattern::new("caf\u{e9}").unwrap().is_match("caf\u{e9}".as_bytes()));
    }

    #[test]
    fn an_invalid_pattern_is_reported_in_one_line() {
        for invalid in ["(", r"\p{Greek}", "[\u{e9}]", r"(?<!a)b", r"\1", "a{99999}{99999}"] {
            let Err(RuleProblem::Pattern(reason)) = Pattern::new(invalid) else {
                panic!("{invalid}")
            };
            assert!(!reason.is_empty() && !reason.contains('\n'), "{invalid}: {reason}");
        }
        assert_eq!(Pattern::new(r"\<b").unwrap_err(), RuleProblem::AngleEscape);
    }
}
