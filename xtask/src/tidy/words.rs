//! Words that may not stand in the tree, or less and less often.
//!
//! - `#[ignore]`: a test that is switched off proves nothing. (Clippy denies `todo!` and
//!   `unimplemented!`.)
//! - `select!` without `biased;` in a simulated crate: which ready branch wins would be random.
//! - Words that hide the subject or the verb of a sentence. Each has a ceiling that only falls.

use std::collections::BTreeMap;
use std::path::Path;

use super::Violation;
use super::crates::short_name;
use super::layers::SIMULATED;
use super::sources::Sources;

/// Words to avoid in comments, documents, messages and names, and how often each may occur. Lower a
/// ceiling when a change goes below it; never raise one.
const CEILINGS: &[(&str, usize)] = &[
    ("anew", 88),
    ("anybody", 47),
    ("everybody", 32),
    ("nobody", 421),
    ("somebody", 152),
    ("tell", 167),
    ("telling", 7),
    ("tells", 172),
    ("told", 1448),
    ("whoever", 315),
    ("whomever", 0),
];

/// Where the words of a ceiling are listed, so that the list does not count.
const THIS_FILE: &str = "xtask/src/tidy/words.rs";

/// Everything wrong with the words of the tree.
pub(crate) fn check(sources: &Sources) -> Vec<Violation> {
    let mut violations = over_ceiling(sources, CEILINGS);
    for (path, text) in &sources.rust {
        violations.extend(ignored_tests(path, text));
        if is_simulated(path) {
            violations.extend(random_selects(path, text));
        }
    }
    violations
}

fn over_ceiling(sources: &Sources, ceilings: &[(&str, usize)]) -> Vec<Violation> {
    let mut counts: BTreeMap<&str, usize> = ceilings.iter().map(|(word, _)| (*word, 0)).collect();
    let files = sources.rust.iter().chain(&sources.documents);
    for (_, text) in files.filter(|(path, _)| **path != Path::new(THIS_FILE)) {
        count(&text.to_lowercase(), &mut counts);
    }
    let over = ceilings.iter().filter_map(|(word, ceiling)| {
        let count = counts.get(word).copied().unwrap_or_default();
        let what = format!("the word `{word}` occurs {count} times");
        let why = format!("at most {ceiling} are left; name the component and use its verb");
        (count > *ceiling).then(|| Violation::new(Path::new(THIS_FILE), 1, what, why))
    });
    over.collect()
}

/// Counts words where they occur as a whole; parts of a name count as words.
fn count(text: &str, counts: &mut BTreeMap<&str, usize>) {
    for word in text.split(|letter: char| !letter.is_alphanumeric()) {
        if let Some(count) = counts.get_mut(word) {
            *count += 1;
        }
    }
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

    #[test]
    fn a_word_over_its_ceiling_is_a_violation() {
        let sources =
            Sources::from_texts(&[("a.rs", "fn anew() {}\n// Anew."), ("b.md", "anew_x")]);
        let found = |ceiling| over_ceiling(&sources, &[("anew", ceiling)]).len();
        assert_eq!((found(2), found(3)), (1, 0));
    }

    #[test]
    fn only_whole_words_count() {
        let mut counts = BTreeMap::from([("told", 0)]);
        count("told, retold, told_so and untold", &mut counts);
        assert_eq!(counts["told"], 2);
    }
}
