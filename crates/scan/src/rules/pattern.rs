//! Patterns, as Gitleaks means them.
//!
//! Its patterns are Go's: `\w`, `\d`, `\s` and `\b` know ASCII only. Here they also see bytes, so
//! that a file need not be text in any encoding.

use regex_automata::meta;
use regex_automata::util::syntax;
use regex_syntax::ast::{self, AssertionKind, Ast, Visitor};
use regex_syntax::hir::Hir;

use super::error::RuleProblem;

/// Most memory that one compiled pattern may take.
const SIZE_LIMIT: usize = 64 << 20;
/// Most memory that the states of one pattern may take while it is searched for.
const CACHE_CAPACITY: usize = 4 << 20;

/// A pattern that compiled.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    pub(crate) regex: meta::Regex,
    pub(crate) hir: Hir,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self, RuleProblem> {
        let wrong = |error: String| RuleProblem::Pattern(readable(&error));
        let syntax = ast::parse::ParserBuilder::new().build().parse(text);
        let syntax = syntax.map_err(|error| wrong(error.to_string()))?;
        ast::visit(&syntax, AngleEscapes)?;
        let mut translator = regex_syntax::hir::translate::TranslatorBuilder::new()
            .utf8(false)
            .unicode(false)
            .build();
        let hir = translator.translate(text, &syntax).map_err(|error| wrong(error.to_string()))?;
        let regex = meta::Regex::builder()
            .configure(
                meta::Config::new()
                    .nfa_size_limit(Some(SIZE_LIMIT))
                    .hybrid_cache_capacity(CACHE_CAPACITY)
                    .utf8_empty(false),
            )
            .syntax(syntax::Config::new().utf8(false).unicode(false))
            .build_from_hir(&hir)
            .map_err(|error| wrong(with_cause(&error)))?;
        Ok(Self { text: text.to_owned(), regex, hir })
    }

    /// How many groups it has, without the one that is all of it.
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

/// Errors about patterns come as a picture of several lines; the last says what it is.
fn readable(error: &str) -> String {
    let last = error.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(error);
    last.trim().trim_start_matches("error: ").to_owned()
}

/// Finds `\<` and `\>`, which Go takes for plain angle brackets.
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
    fn words_and_digits_are_ascii_and_bytes_need_be_no_text() {
        assert!(Pattern::new(r"^\w{2}$").unwrap().is_match(b"ab"));
        assert!(!Pattern::new(r"^\w+$").unwrap().is_match("\u{e9}".as_bytes()));
        assert!(Pattern::new(r"k.y").unwrap().is_match(b"k\xffy"));
        assert!(Pattern::new("caf\u{e9}").unwrap().is_match("caf\u{e9}".as_bytes()));
    }

    #[test]
    fn what_cannot_be_used_is_told_in_one_line() {
        for wrong in ["(", r"\p{Greek}", "[\u{e9}]", r"(?<!a)b", r"\1", "a{99999}{99999}"] {
            let Err(RuleProblem::Pattern(told)) = Pattern::new(wrong) else { panic!("{wrong}") };
            assert!(!told.is_empty() && !told.contains('\n'), "{wrong}: {told}");
        }
        assert_eq!(Pattern::new(r"\<b").unwrap_err(), RuleProblem::AngleEscape);
    }
}
