//! How long a file, a function and a line may be.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, Signature, TraitItemFn};

use super::sources::{Source, Sources};
use super::test_code::{is_test, item_attributes};
use super::violation::Violation;

/// Lines of a file outside its test modules. Turn limits down, never up.
const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_CHARACTERS_MAX: usize = 100;
const SHOWN: usize = 10;

/// What was measured, and what is too long.
#[derive(Default)]
pub(crate) struct Sizes {
    pub(crate) violations: Vec<Violation>,
    files: Vec<(usize, PathBuf)>,
    functions: Vec<(usize, PathBuf, Function)>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// Measures every file; `test_files` are those that hold nothing but tests.
pub(crate) fn measure(sources: &Sources, test_files: &BTreeSet<PathBuf>) -> Sizes {
    let mut sizes = Sizes::default();
    for (path, source) in &sources.rust {
        sizes.violations.extend(long_lines(path, &source.text));
        let lines = if test_files.contains(path) { 0 } else { code_lines(source) };
        if lines > FILE_LINES_MAX {
            let what = format!("{lines} lines of code before tests");
            let why = format!("the limit is {FILE_LINES_MAX}; divide the file by its ideas");
            sizes.violations.push(Violation::new(path, 1, what, why));
        }
        sizes.files.push((lines, path.clone()));
        for function in functions(source) {
            let Function { name, line, lines } = &function;
            if *lines > FUNCTION_LINES_MAX {
                let what = format!("function {name} has {lines} lines");
                let why = format!("the limit is {FUNCTION_LINES_MAX}; name its parts");
                sizes.violations.push(Violation::new(path, *line, what, why));
            }
            sizes.functions.push((*lines, path.clone(), function));
        }
    }
    sizes.files.sort_by(|one, other| other.cmp(one));
    sizes.functions.sort_by(|one, other| other.cmp(one));
    sizes
}

impl Sizes {
    /// The largest files and functions, for whoever wonders where to cut next.
    pub(crate) fn largest(&self) -> String {
        let mut lines = vec!["largest files (lines of code before tests):".to_owned()];
        for (count, path) in self.files.iter().take(SHOWN) {
            lines.push(format!("{count:5}  {}", path.display()));
        }
        lines.push("largest functions (lines):".to_owned());
        for (count, path, function) in self.functions.iter().take(SHOWN) {
            let Function { name, line, .. } = function;
            lines.push(format!("{count:5}  {}:{line} {name}", path.display()));
        }
        lines.join("\n")
    }
}

fn long_lines(path: &Path, text: &str) -> Vec<Violation> {
    let counted = text.lines().enumerate().map(|(at, line)| (at + 1, line.chars().count()));
    counted
        .filter(|(_, count)| *count > LINE_CHARACTERS_MAX)
        .map(|(line, count)| {
            let what = format!("a line of {count} characters");
            let why = format!("the limit is {LINE_CHARACTERS_MAX}; break the string or comment");
            Violation::new(path, line, what, why)
        })
        .collect()
}

/// All lines but those of test items, so that code after the tests counts as well.
fn code_lines(source: &Source) -> usize {
    let all = source.text.lines().count();
    let Ok(syntax) = &source.syntax else {
        return all;
    };
    let tests = syntax.items.iter().filter(|item| is_test(item_attributes(item))).map(|item| {
        let span = item.span();
        span.end().line - span.start().line + 1
    });
    all.saturating_sub(tests.sum())
}

fn functions(source: &Source) -> Vec<Function> {
    let mut found = Functions::default();
    if let Ok(syntax) = &source.syntax {
        found.visit_file(syntax);
    }
    found.0
}

#[derive(Default)]
struct Functions(Vec<Function>);

impl Functions {
    fn add(&mut self, signature: &Signature, block: &Block) {
        let line = signature.fn_token.span.start().line;
        let end = block.brace_token.span.close().end().line;
        let name = signature.ident.to_string();
        self.0.push(Function { name, line, lines: end - line + 1 });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }

    // Functions given to a macro, as property tests are, have no syntax tree of their own.
    fn visit_token_stream(&mut self, stream: &'ast TokenStream) {
        self.scan(stream);
    }
}

impl Functions {
    fn scan(&mut self, stream: &TokenStream) {
        let mut open: Option<(String, usize)> = None;
        let mut after_fn = None;
        for token in stream.clone() {
            match token {
                TokenTree::Ident(ident) if ident == "fn" => {
                    after_fn = Some(ident.span().start().line);
                    continue;
                }
                TokenTree::Ident(ident) => {
                    open = after_fn.map(|line| (ident.to_string(), line)).or(open);
                }
                TokenTree::Group(group) => {
                    if group.delimiter() == Delimiter::Brace
                        && let Some((name, line)) = open.take()
                    {
                        let lines = group.span_close().end().line - line + 1;
                        self.0.push(Function { name, line, lines });
                    }
                    self.scan(&group.stream());
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => open = None,
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            after_fn = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let sources = Sources::from_texts(&[("a.rs", text)]);
        let sizes = measure(&sources, &BTreeSet::new());
        sizes.violations.iter().map(Violation::to_string).collect()
    }

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn a_file_may_be_as_long_as_the_limit_and_no_longer() {
        assert!(found(&"use a;\n".repeat(500)).is_empty());
        let long = found(&"use a;\n".repeat(501));
        assert!(long[0].starts_with("a.rs:1: 501 lines"), "{long:?}");
    }

    #[test]
    fn tests_at_the_foot_do_not_count_but_code_below_them_does() {
        let tests = format!("/// Tests.\n#[cfg(test)]\nmod t {{\n{}}}\n", "use a;\n".repeat(300));
        assert!(found(&format!("{}{tests}", "use a;\n".repeat(500))).is_empty());
        let around = format!("{}{tests}use b;\n", "use a;\n".repeat(500));
        assert!(found(&around)[0].contains("501 lines"));
    }

    #[test]
    fn a_file_of_tests_may_be_long_but_its_functions_may_not() {
        let text = format!("{}{}", "use a;\n".repeat(600), function(71));
        let sources = Sources::from_texts(&[("tests/a.rs", &text)]);
        let sizes = measure(&sources, &BTreeSet::from([PathBuf::from("tests/a.rs")]));
        assert_eq!(sizes.violations.len(), 1);
        assert!(sizes.violations[0].to_string().contains("function f has 71 lines"));
    }

    #[test]
    fn a_function_may_be_as_long_as_the_limit_and_no_longer() {
        assert!(found(&function(70)).is_empty());
        assert!(found(&format!("/// Doc.\n#[inline]\n{}", function(70))).is_empty());
        assert!(found(&function(71))[0].starts_with("a.rs:1: function f has 71 lines"));
        assert_eq!(found(&format!("impl S {{\n{}}}", function(71))).len(), 1);
        assert_eq!(found(&format!("trait T {{\n{}}}", function(71))).len(), 1);
        assert_eq!(found(&format!("proptest! {{\n{}}}", function(71))).len(), 1);
        assert!(found(&format!("proptest! {{\n{0}{0}}}", function(70))).is_empty());
    }

    #[test]
    fn a_line_is_measured_in_characters_not_bytes() {
        assert!(found(&format!("// {}", "é".repeat(97))).is_empty());
        assert!(found(&format!("\n// {}", "é".repeat(98)))[0].starts_with("a.rs:2: a line of 101"));
    }

    #[test]
    fn the_largest_come_first_and_only_ten_are_shown() {
        let texts: Vec<(String, String)> =
            (2..14).map(|lines| (format!("{lines}.rs"), function(lines))).collect();
        let texts: Vec<(&str, &str)> =
            texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let shown = measure(&Sources::from_texts(&texts), &BTreeSet::new()).largest();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 2 + 2 * SHOWN);
        assert_eq!(lines[1], "   13  13.rs");
        assert_eq!(lines[12], "   13  13.rs:1 f");
        assert!(!shown.contains(" 3.rs"), "{shown}");
    }
}
