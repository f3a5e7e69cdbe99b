//! The paths that stand in a stream of tokens.
//!
//! What a macro is given, and what a macro is defined as, has no syntax tree. But a path is a
//! path there too: names joined by `::`.

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};
use syn::ext::IdentExt;

/// A path as it is written somewhere, before anyone asks what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) segments: Vec<String>,
    /// Begins with `::`, so that the first name is a crate.
    pub(crate) absolute: bool,
    pub(crate) form: Form,
    pub(crate) line: usize,
}

/// How a path is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A name of a value, type or module.
    Name,
    /// `path!(…)`, and whether its body begins with `biased;`.
    Call { biased: bool },
    /// `path::*`.
    Glob,
}

/// Every path in the stream, nested groups included.
pub(crate) fn mentions(stream: &TokenStream) -> Vec<Mention> {
    let mut found = Vec::new();
    scan(stream, None, &mut found);
    found
}

/// Whether the body of a macro call begins with `biased;`.
pub(crate) fn begins_biased(body: &TokenStream) -> bool {
    let mut tokens = body.clone().into_iter();
    let first = matches!(tokens.next(), Some(TokenTree::Ident(ident)) if ident == "biased");
    first && matches!(tokens.next(), Some(TokenTree::Punct(punct)) if punct.as_char() == ';')
}

/// Scans one level; `prefix` is the path in front of a group such as `std::{…}`.
fn scan(stream: &TokenStream, prefix: Option<&Mention>, found: &mut Vec<Mention>) {
    let tokens: Vec<TokenTree> = stream.clone().into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Group(group) => scan(&group.stream(), None, found),
            TokenTree::Ident(_) if !continues_another_path(&tokens, at) => {
                at = path(&tokens, at, prefix, found);
                continue;
            }
            token if punctuation(token) == Some('*') => {
                found.extend(prefix.map(|prefix| Mention { form: Form::Glob, ..prefix.clone() }));
            }
            _ => {}
        }
        at += 1;
    }
}

/// Whether the name at `at` is a method or field, or the tail of a path like `Vec::<u8>::new`.
fn continues_another_path(tokens: &[TokenTree], at: usize) -> bool {
    let before = |distance: usize| {
        at.checked_sub(distance).and_then(|index| tokens.get(index)).and_then(punctuation)
    };
    match before(1) {
        // `..Name` is a range or the rest of a struct, and its name begins a path.
        Some('.') => before(2) != Some('.'),
        Some(':') if before(2) == Some(':') => before(3) == Some('>'),
        _ => false,
    }
}

/// Reads the path that begins at `at` and returns where it ends.
fn path(
    tokens: &[TokenTree],
    mut at: usize,
    prefix: Option<&Mention>,
    found: &mut Vec<Mention>,
) -> usize {
    let leading = at.checked_sub(2).is_some_and(|two_before| is_separator(tokens, two_before));
    let line = tokens.get(at).map_or(0, |token| token.span().start().line);
    let mut mention = Mention {
        segments: prefix.map_or_else(Vec::new, |prefix| prefix.segments.clone()),
        absolute: prefix.map_or(leading, |prefix| prefix.absolute),
        form: Form::Name,
        line,
    };
    while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
        let name = ident.unraw().to_string();
        // In `use a::{self, b}` the word `self` stands for `a`.
        if name != "self" || mention.segments.is_empty() {
            mention.segments.push(name);
        }
        at += 1;
        if !is_separator(tokens, at) {
            break;
        }
        match tokens.get(at + 2) {
            Some(TokenTree::Ident(_)) => at += 2,
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                scan(&group.stream(), Some(&mention), found);
                return at + 3;
            }
            Some(token) if punctuation(token) == Some('*') => {
                mention.form = Form::Glob;
                at += 3;
                break;
            }
            _ => break,
        }
    }
    if let Some(body) = call_body(tokens, at) {
        mention.form = Form::Call { biased: begins_biased(&body.stream()) };
    }
    found.push(mention);
    at
}

/// The group of a macro call whose `!` stands at `at`.
fn call_body(tokens: &[TokenTree], at: usize) -> Option<&Group> {
    let bang = tokens.get(at).and_then(punctuation) == Some('!');
    match tokens.get(at + 1) {
        Some(TokenTree::Group(group)) if bang => Some(group),
        _ => None,
    }
}

fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    let first = matches!(
        tokens.get(at),
        Some(TokenTree::Punct(punct)) if punct.as_char() == ':' && punct.spacing() == Spacing::Joint
    );
    first && tokens.get(at + 1).and_then(punctuation) == Some(':')
}

fn punctuation(token: &TokenTree) -> Option<char> {
    match token {
        TokenTree::Punct(punct) => Some(punct.as_char()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let stream: TokenStream = text.parse().unwrap();
        mentions(&stream)
            .iter()
            .map(|mention| {
                let start = if mention.absolute { "::" } else { "" };
                let end = match mention.form {
                    Form::Name => "",
                    Form::Call { biased: false } => "!",
                    Form::Call { biased: true } => "! biased",
                    Form::Glob => "::*",
                };
                format!("{start}{}{end}", mention.segments.join("::"))
            })
            .collect()
    }

    #[test]
    fn paths_are_read_as_far_as_they_go() {
        assert_eq!(found("a::b::c(d)"), ["a::b::c", "d"]);
        assert_eq!(found("::std::fs::read(x)"), ["::std::fs::read", "x"]);
        assert_eq!(found("x: u8"), ["x", "u8"]);
        assert_eq!(found("f(..a::b)"), ["f", "a::b"]);
        assert_eq!(found("$crate::a"), ["crate::a"]);
    }

    #[test]
    fn methods_and_tails_of_generic_paths_begin_no_path() {
        assert_eq!(found("a.spawn()"), ["a"]);
        assert_eq!(found("Vec::<u8>::new()"), ["Vec", "u8"]);
    }

    #[test]
    fn groups_globs_and_self_take_the_prefix() {
        assert_eq!(
            found("use std::{self, time::{Duration, Instant}, fs::*, io::{*}};"),
            ["use", "std", "std::time::Duration", "std::time::Instant", "std::fs::*", "std::io::*"]
        );
    }

    #[test]
    fn macro_calls_are_told_from_inequality() {
        assert_eq!(found("println!(a)"), ["println!", "a"]);
        assert_eq!(found("a != (b)"), ["a", "b"]);
        assert_eq!(found("tokio::select! { biased; x }"), ["tokio::select! biased", "biased", "x"]);
    }

    #[test]
    fn strings_and_comments_hold_no_paths() {
        assert_eq!(found("f(\"std::fs\") // std::net\n /* std::io */"), ["f"]);
    }

    #[test]
    fn a_mention_knows_its_line() {
        let stream: TokenStream = "a\n\nb::c".parse().unwrap();
        let lines: Vec<usize> = mentions(&stream).iter().map(|mention| mention.line).collect();
        assert_eq!(lines, [1, 3]);
    }
}
