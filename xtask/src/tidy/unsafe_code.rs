//! `unsafe` is forbidden in every target of every crate.

use std::path::Path;

use syn::{Meta, Token, punctuated::Punctuated};

use super::crates::Crate;
use super::sources::Sources;
use super::violation::Violation;

/// Crates that neither inherit the workspace's ban nor state it in the root of every target.
pub(crate) fn check(crates: &[Crate], sources: &Sources) -> Vec<Violation> {
    let banned_for_all = workspace_forbids(sources);
    let mut violations = Vec::new();
    for one in crates {
        if banned_for_all && inherits_lints(sources, &one.manifest()) {
            continue;
        }
        for target in &one.targets {
            if !root_forbids(sources, &target.path) {
                let what = "unsafe code is not forbidden";
                let why = "say `[lints] workspace = true` in the manifest of the crate";
                violations.push(Violation::new(&target.path, 1, what, why));
            }
        }
    }
    violations
}

fn workspace_forbids(sources: &Sources) -> bool {
    let Some(manifest) = sources.manifests.get(Path::new("Cargo.toml")) else {
        return false;
    };
    // The value is a string or a table with a level; either way it names the level in quotes.
    value(manifest, "workspace.lints.rust", "unsafe_code")
        .is_some_and(|value| value.contains("\"forbid\""))
}

fn inherits_lints(sources: &Sources, manifest: &Path) -> bool {
    sources.manifests.get(manifest).is_some_and(|manifest| {
        value(manifest, "lints", "workspace") == Some("true")
            || value(manifest, "", "lints.workspace") == Some("true")
    })
}

/// The value of a key that stands on one line of a section. That is all of TOML this rule needs.
fn value<'m>(manifest: &'m str, section: &str, key: &str) -> Option<&'m str> {
    let mut current = "";
    for line in manifest.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(header) = line.strip_prefix('[') {
            current = header.trim_end_matches(']').trim();
        } else if current == section
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == key
        {
            return Some(value.trim());
        }
    }
    None
}

fn root_forbids(sources: &Sources, path: &Path) -> bool {
    let Some(syntax) = sources.syntax(path) else {
        return false;
    };
    syntax.attrs.iter().any(|attribute| {
        attribute.path().is_ident("forbid")
            && attribute
                .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
                .is_ok_and(|lints| lints.iter().any(|lint| lint.path().is_ident("unsafe_code")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::crates::{Kind, Target};

    const FORBIDS: &str = "[workspace.lints.rust]\nunsafe_code = \"forbid\"";

    fn violations(workspace: &str, manifest: &str, library: &str) -> Vec<String> {
        let sources = Sources::from_texts(&[
            ("Cargo.toml", workspace),
            ("crates/a/Cargo.toml", manifest),
            ("crates/a/src/lib.rs", library),
        ]);
        let one = Crate {
            name: "shardwright-a".to_owned(),
            folder: "crates/a".into(),
            dependencies: Vec::new(),
            targets: vec![Target { path: "crates/a/src/lib.rs".into(), kind: Kind::Production }],
        };
        check(&[one], &sources).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn a_crate_that_inherits_the_ban_passes() {
        assert!(violations(FORBIDS, "[lints]\nworkspace = true", "").is_empty());
        assert!(violations(FORBIDS, "lints.workspace = true", "").is_empty());
        let table = "[workspace.lints.rust]\nunsafe_code = { level = \"forbid\", priority = 1 }";
        assert!(violations(table, "[lints]\nworkspace = true # all of them", "").is_empty());
    }

    #[test]
    fn a_crate_that_states_the_ban_itself_passes() {
        assert!(violations("", "[package]", "#![forbid(unsafe_code)]").is_empty());
        assert!(violations("", "[package]", "#![forbid(missing_docs, unsafe_code)]").is_empty());
    }

    #[test]
    fn a_crate_without_the_ban_is_a_violation() {
        let found = violations(FORBIDS, "[package]\nworkspace = true", "");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/a/src/lib.rs:1: "), "{found:?}");
    }

    #[test]
    fn a_weaker_word_than_forbid_is_not_enough() {
        let denies = "[workspace.lints.rust]\nunsafe_code = \"deny\"";
        assert_eq!(violations(denies, "[lints]\nworkspace = true", "").len(), 1);
        assert_eq!(violations("", "", "#![deny(unsafe_code)]").len(), 1);
        assert_eq!(violations("", "", "// #![forbid(unsafe_code)]").len(), 1);
        let elsewhere = "[workspace.lints.clippy]\nunsafe_code = \"forbid\"";
        assert_eq!(violations(elsewhere, "[lints]\nworkspace = true", "").len(), 1);
    }
}
