//! Which crates have the Clippy settings that ban clocks, IO, chance and threads.
//!
//! Clippy reads one `clippy.toml` per crate and inherits nothing. So `xtask/clippy` has the lists,
//! and the settings of a crate must be those of the workspace followed by its list. A crate must
//! also inherit the lints of the workspace, which forbid unsafe code.

use std::path::Path;

use super::Violation;
use super::crates::Crate;
use super::layers::{PURE, SIMULATED};
use super::sources::Sources;

/// The settings of all crates that ban nothing.
const COMMON: &str = "clippy.toml";

/// Crates whose Clippy settings are not what their layer requires, or that inherit no lints.
pub(crate) fn check(crates: &[Crate], sources: &Sources) -> Vec<Violation> {
    let mut violations = Vec::new();
    for one in crates {
        let manifest = text(sources, &one.manifest());
        if !manifest.contains("[lints]\nworkspace = true") {
            let what = "the lints of the workspace are not inherited";
            let why = "add `[lints] workspace = true`; the lints forbid unsafe code";
            violations.push(Violation::new(&one.manifest(), 1, what, why));
        }
        let Some(list) = list_of(one.short_name()) else { continue };
        let expected = [text(sources, Path::new(COMMON)), text(sources, Path::new(list))].concat();
        let settings = one.folder.join("clippy.toml");
        if text(sources, &settings) != expected {
            let why = format!("it must be {COMMON} followed by {list}");
            violations.push(Violation::new(&settings, 1, "other Clippy settings", why));
        }
    }
    violations
}

fn list_of(short_name: &str) -> Option<&'static str> {
    if PURE.contains(&short_name) {
        Some("xtask/clippy/pure.toml")
    } else if SIMULATED.contains(&short_name) {
        Some("xtask/clippy/simulated.toml")
    } else {
        None
    }
}

fn text<'s>(sources: &'s Sources, path: &Path) -> &'s str {
    sources.settings.get(path).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(manifest: &str, settings: &str) -> Vec<String> {
        let sources = Sources::from_texts(&[
            ("clippy.toml", "a = 1\n"),
            ("xtask/clippy/pure.toml", "b = 2\n"),
            ("xtask/clippy/simulated.toml", "c = 3\n"),
            ("crates/contracts/Cargo.toml", manifest),
            ("crates/contracts/clippy.toml", settings),
        ]);
        let one = Crate {
            name: "shardwright-contracts".to_owned(),
            folder: "crates/contracts".into(),
            dependencies: Vec::new(),
        };
        check(&[one], &sources).iter().map(Violation::to_string).collect()
    }

    const INHERITS: &str = "[lints]\nworkspace = true\n";

    #[test]
    fn crate_settings_are_the_common_ones_and_the_list_of_the_layer() {
        assert!(violations(INHERITS, "a = 1\nb = 2\n").is_empty());
        for settings in ["", "a = 1\n", "b = 2\n", "a = 1\nc = 3\n"] {
            let found = violations(INHERITS, settings);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("crates/contracts/clippy.toml:1: "), "{found:?}");
        }
    }

    #[test]
    fn a_crate_that_inherits_no_lints_is_a_violation() {
        let found = violations("[package]\nworkspace = true\n", "a = 1\nb = 2\n");
        assert!(found[0].starts_with("crates/contracts/Cargo.toml:1: "), "{found:?}");
    }

    #[test]
    fn each_layer_has_at_most_one_list() {
        assert!(PURE.iter().all(|name| !SIMULATED.contains(name)));
        assert!(list_of("coordination") != list_of("engine") && list_of("cli").is_none());
    }
}
