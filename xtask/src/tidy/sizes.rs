//! How long a file, a function and a line may be.
//!
//! Rustfmt has formatted every file, so indentation shows where a function ends and tests begin.

use std::path::{Path, PathBuf};

use super::Violation;
use super::sources::Sources;

/// Lines of a file before its tests. Lower the limits, never raise them.
const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_CHARACTERS_MAX: usize = 100;
const SHOWN: usize = 10;

/// The measured sizes, the largest first.
#[derive(Default)]
pub(crate) struct Sizes {
    files: Vec<(usize, PathBuf)>,
    functions: Vec<(usize, PathBuf, Function)>,
    long_lines: Vec<Violation>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

impl Sizes {
    /// Measures every file.
    pub(crate) fn measure(sources: &Sources) -> Self {
        let mut sizes = Self::default();
        for (path, text) in &sources.rust {
            sizes.long_lines.extend(long_lines(path, text));
            let lines = if holds_only_tests(path) { 0 } else { code_lines(text) };
            sizes.files.push((lines, path.clone()));
            for function in functions(text) {
                sizes.functions.push((function.lines, path.clone(), function));
            }
        }
        sizes.files.sort_by(|one, other| other.cmp(one));
        sizes.functions.sort_by(|one, other| other.cmp(one));
        sizes
    }

    /// Everything that is too long.
    pub(crate) fn violations(&self) -> Vec<Violation> {
        let files = self.files.iter().filter(|(lines, _)| *lines > FILE_LINES_MAX);
        let files = files.map(|(lines, path)| {
            let what = format!("{lines} lines of code before tests");
            let why = format!("the limit is {FILE_LINES_MAX}; divide the file by its ideas");
            Violation::new(path, 1, what, why)
        });
        let functions = self.functions.iter().filter(|(lines, ..)| *lines > FUNCTION_LINES_MAX);
        let functions = functions.map(|(lines, path, function)| {
            let what = format!("function {} has {lines} lines", function.name);
            let why = format!("the limit is {FUNCTION_LINES_MAX}; name its parts");
            Violation::new(path, function.line, what, why)
        });
        files.chain(functions).chain(self.long_lines.iter().cloned()).collect()
    }

    /// The largest files and functions.
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
    let counted = (1..).zip(text.lines().map(|line| line.chars().count()));
    counted
        .filter(|(_, count)| *count > LINE_CHARACTERS_MAX)
        .map(|(line, count)| {
            let what = format!("a line of {count} characters");
            let why = format!("the limit is {LINE_CHARACTERS_MAX}; break the string or comment");
            Violation::new(path, line, what, why)
        })
        .collect()
}

fn holds_only_tests(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem == "tests")
        || path.components().any(|part| part.as_os_str() == "tests")
}

/// The lines before the tests at the end. Clippy ensures that no code follows them.
fn code_lines(text: &str) -> usize {
    let mut lines = text.lines().peekable();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let opens_module =
            lines.peek().is_some_and(|next| next.contains("mod ") && next.ends_with('{'));
        if line == "#[cfg(test)]" && opens_module {
            break;
        }
        count += 1;
    }
    count
}

/// The functions with a body, from the line of their name to that of their last brace.
fn functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let is_same_depth = |line: &str| line.len() - line.trim_start().len() == indent;
        // A function of one line, or without a body, ends at its own depth as well.
        let end = lines
            .iter()
            .skip(at)
            .position(|line| is_same_depth(line) && (line.ends_with('}') || line.ends_with(';')));
        let lines = end.map_or(1, |end| end + 1);
        found.push(Function { name: name.to_owned(), line: at + 1, lines });
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        if let Some(name) = rest.strip_prefix("fn ") {
            return name.split(['(', '<']).next();
        }
        let (word, after) = rest.split_once(' ')?;
        let is_qualifier = matches!(word, "pub" | "const" | "async") || word.starts_with("pub(");
        rest = is_qualifier.then_some(after)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(path: &str, text: &str) -> Vec<String> {
        let sizes = Sizes::measure(&Sources::from_texts(&[(path, text)]));
        sizes.violations().iter().map(Violation::to_string).collect()
    }

    fn found(text: &str) -> Vec<String> {
        found_in("src/a.rs", text)
    }

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn a_file_may_be_as_long_as_the_limit_and_no_longer() {
        assert!(found(&"use a;\n".repeat(500)).is_empty());
        let long = found(&"use a;\n".repeat(501));
        assert!(long[0].starts_with("src/a.rs:1: 501 lines"), "{long:?}");
    }

    #[test]
    fn tests_do_not_count() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    use b;\n".repeat(600));
        assert!(found(&("use a;\n".repeat(500) + &tests)).is_empty());
        assert_eq!(found(&("use a;\n".repeat(501) + &tests)).len(), 1);
        let long = "use a;\n".repeat(600);
        assert!(found_in("src/a/tests.rs", &long).is_empty());
        assert!(found_in("tests/a/main.rs", &long).is_empty());
        assert_eq!(found(&format!("#[cfg(test)]\nmod tests;\n{long}")).len(), 1);
    }

    #[test]
    fn a_function_may_be_as_long_as_the_limit_and_no_longer() {
        assert!(found(&function(70)).is_empty());
        let long = found(&format!("use a;\n{}", function(71)));
        assert!(long[0].starts_with("src/a.rs:2: function f has 71 lines"), "{long:?}");
        assert_eq!(found_in("tests/a.rs", &function(71)).len(), 1, "tests are not exempt");
    }

    #[test]
    fn functions_are_measured_at_every_depth() {
        let methods = [
            "impl A {",
            "    pub(crate) async fn long() -> B {",
            "        if c {",
            "        }",
            "    }",
            "",
            "    const fn short() {}",
            "    fn none(&self);",
            "}",
        ];
        let methods = methods.join("\n");
        let lengths: Vec<(String, usize)> =
            functions(&methods).into_iter().map(|one| (one.name, one.lines)).collect();
        let expected = [("long", 4), ("short", 1), ("none", 1)];
        assert_eq!(lengths, expected.map(|(name, lines)| (name.to_owned(), lines)));
    }

    #[test]
    fn a_line_may_have_a_hundred_characters() {
        let line = |characters: usize| format!("// {}\n", "ä".repeat(characters - 3));
        assert!(found(&line(100)).is_empty());
        assert!(found(&line(101))[0].starts_with("src/a.rs:1: a line of 101"));
    }

    #[test]
    fn the_largest_are_shown_in_order() {
        let texts = [("a.rs", function(5)), ("b.rs", function(9))];
        let texts: Vec<(&str, &str)> =
            texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let shown = Sizes::measure(&Sources::from_texts(&texts)).largest();
        let place = |text: &str| shown.find(text).unwrap();
        assert!(place("9  b.rs\n") < place("5  a.rs\n"), "{shown}");
        assert!(place("9  b.rs:1 f") < place("5  a.rs:1 f"), "{shown}");
    }
}
