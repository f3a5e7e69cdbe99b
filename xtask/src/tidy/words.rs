//! Words of Rust code that must not occur.
//!
//! - `#[ignore]`: a test that is switched off proves nothing. (Clippy denies `todo!` and
//!   `unimplemented!`.)
//! - `select!` without `biased;` in a simulated crate: which ready branch wins would be random.

use std::path::Path;

use super::Violation;
use super::crates::short_name;
use super::layers::SIMULATED;
use super::sources::Sources;

/// Every forbidden word of the code.
pub(crate) fn check(sources: &Sources) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in &sources.rust {
        violations.extend(ignored_tests(path, text));
        if is_simulated(path) {
            violations.extend(random_selects(path, text));
        }
    }
    violations
}

fn ignored_tests(path: &Path, text: &str) -> Vec<Violation> {
    let why = "a test that does not run proves nothing; repair or remove it";
    let is_ignored = |line: &str| {
        let line = line.trim_start();
        line.starts_with("#[ignore") || (line.starts_with("#[cfg_attr") && line.contains("ignore"))
    };
    let lines = (1..).zip(text.lines()).filter(|(_, line)| is_ignored(line));
    lines.map(|(line, _)| Violation::new(path, line, "a test that is switched off", why)).collect()
}

fn is_simulated(path: &Path) -> bool {
    let mut parts = path.components().map(|part| part.as_os_str().to_string_lossy());
    parts.next().is_some_and(|part| part == "crates")
        && parts.next().is_some_and(|name| SIMULATED.contains(&short_name(&name)))
        && parts.next().is_some_and(|part| part == "src")
}

fn random_selects(path: &Path, text: &str) -> Vec<Violation> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let pairs = (1..).zip(lines.iter().zip(lines.iter().skip(1)));
    let why = "which ready branch wins is random; begin the body with `biased;`";
    pairs
        .filter(|(_, (line, next))| {
            !line.starts_with("//") && line.ends_with("select! {") && **next != "biased;"
        })
        .map(|(line, _)| Violation::new(path, line, "select! without biased", why))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let sources = Sources::from_texts(&[(path, text)]);
        check(&sources).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn a_test_that_is_switched_off_is_a_violation() {
        let off = concat!("\n#[", "ignore]\nfn f() {}");
        assert!(found("a.rs", off)[0].starts_with("a.rs:2: "));
        assert_eq!(found("a.rs", concat!("#[", "ignore = \"slow\"]")).len(), 1);
        assert_eq!(found("a.rs", concat!("    #[", "cfg_attr(windows, ignore)]")).len(), 1);
        assert!(found("a.rs", "// #[ignore]\nfn ignore() {}").is_empty());
    }

    #[test]
    fn a_select_in_a_simulated_crate_begins_with_biased() {
        let random = "tokio::select! {\n    a = b => c,\n}";
        let biased = "tokio::select! {\n    biased;\n    a = b => c,\n}";
        assert!(found("crates/engine/src/a.rs", random)[0].contains("a.rs:1: select!"));
        assert!(found("crates/engine/src/a.rs", biased).is_empty());
        for path in ["crates/engine/tests/a.rs", "crates/cli/src/a.rs"] {
            assert!(found(path, random).is_empty(), "{path}");
        }
    }
}
