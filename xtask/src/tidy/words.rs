//! Words that stand for work not done: `todo!`, `unimplemented!` and `#[ignore]`.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

use super::sources::Sources;
use super::violation::Violation;

/// Every place in the tree, tests included, where one of the words is code.
pub(crate) fn check(sources: &Sources) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, source) in &sources.rust {
        // Tokens rather than text, so that a comment or a string may speak of the words.
        if let Ok(stream) = source.text.parse::<TokenStream>() {
            scan(path, stream, &mut violations);
        }
    }
    violations
}

fn scan(path: &Path, stream: TokenStream, violations: &mut Vec<Violation>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|index| tokens.get(index));
        match token {
            TokenTree::Ident(ident) if is_punctuation(tokens.get(at + 1), '!') => {
                // A name before an inequality is a variable; a macro call has a body.
                let called = matches!(tokens.get(at + 2), Some(TokenTree::Group(_)));
                if called && (ident == "todo" || ident == "unimplemented") {
                    let line = ident.span().start().line;
                    let why = "code that is in the tree works; write it or leave it out";
                    violations.push(Violation::new(path, line, format!("{ident}!"), why));
                }
            }
            TokenTree::Group(group) => {
                if is_punctuation(before, '#') && ignores(group.stream()) {
                    let line = group.span_open().start().line;
                    let why = "a test that does not run proves nothing; repair or remove it";
                    violations.push(Violation::new(path, line, "#[ignore]", why));
                }
                scan(path, group.stream(), violations);
            }
            _ => {}
        }
    }
}

/// Whether the content of an attribute is `ignore`, plainly or under a condition.
fn ignores(attribute: TokenStream) -> bool {
    let mut tokens = attribute.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(name)), _) if name == "ignore" => true,
        (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) if name == "cfg_attr" => body
            .stream()
            .into_iter()
            .any(|one| matches!(one, TokenTree::Ident(name) if name == "ignore")),
        _ => false,
    }
}

fn is_punctuation(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        check(&Sources::from_texts(&[("a.rs", text)])).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn unfinished_code_is_a_violation_wherever_it_stands() {
        assert!(found("fn f() {\n    todo!()\n}")[0].starts_with("a.rs:2: todo!"));
        assert!(found("fn f() { unimplemented!(\"x\") }")[0].contains("unimplemented!"));
        assert_eq!(found("#[cfg(test)] mod t { fn f() { m!(std::todo!()) } }").len(), 1);
    }

    #[test]
    fn a_test_that_is_switched_off_is_a_violation() {
        assert!(found("\n#[ignore]\nfn f() {}")[0].starts_with("a.rs:2: #[ignore]"));
        assert_eq!(found("#[ignore = \"slow\"] fn f() {}").len(), 1);
        assert_eq!(found("#[cfg_attr(windows, ignore)] fn f() {}").len(), 1);
        assert_eq!(found("proptest! { #[test] #[ignore] fn f() {} }").len(), 1);
    }

    #[test]
    fn talk_of_the_words_is_allowed() {
        for text in [
            "// todo!()\n/// #[ignore]\nfn f() { g(\"unimplemented!()\") }",
            "fn todo() {} fn f() { todo(); }",
            "fn f(todo: u8) -> bool { todo != (1) }",
            "#[serde(ignore)] struct S;",
            "fn ignore() {}",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }
}
