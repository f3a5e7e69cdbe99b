//! The map of promises in `specs/README.md` names every rule and property.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use shardwright_specs::Rule;

fn specs() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Everything in backquotes in the rows of the map.
fn mapped() -> BTreeSet<String> {
    let text = fs::read_to_string(specs().join("README.md")).unwrap();
    let map = text.split("\n## ").find(|part| part.starts_with("Which promise")).unwrap();
    let rows = map.lines().filter(|line| line.starts_with("| "));
    rows.flat_map(|row| row.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// The names below `INVARIANT` and `PROPERTY` in the configurations, except for the one that only
/// records which situations occurred.
fn checked_by_tlc() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for config in ["small.cfg", "liveness.cfg"] {
        let text = fs::read_to_string(specs().join("coordination").join(config)).unwrap();
        let mut listing = false;
        for word in text.split_whitespace() {
            if word.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_') {
                listing = matches!(word, "INVARIANT" | "INVARIANTS" | "PROPERTY" | "PROPERTIES");
            } else if listing && word != "NoteStates" {
                names.insert(word.to_owned());
            }
        }
    }
    names
}

#[test]
fn every_rule_of_the_model_is_mapped() {
    let mapped = mapped();
    let missing: Vec<_> =
        Rule::ALL.iter().filter(|rule| !mapped.contains(&format!("{rule:?}"))).collect();
    assert!(missing.is_empty(), "not in the map: {missing:?}");
}

#[test]
fn every_property_that_tlc_checks_is_mapped() {
    let checked = checked_by_tlc();
    assert!(checked.len() > 20, "the configurations could not be parsed: {checked:?}");
    let missing: Vec<_> = checked.difference(&mapped()).cloned().collect();
    assert!(missing.is_empty(), "not in the map: {missing:?}");
}

#[test]
fn every_file_in_the_map_exists() {
    let root = specs().parent().unwrap().join("crates/coordination/src");
    let files = mapped().into_iter().filter(|name| name.ends_with(".rs") || name.ends_with('/'));
    let missing: Vec<_> = files.filter(|file| !root.join(file).exists()).collect();
    assert!(missing.is_empty(), "not under {}: {missing:?}", root.display());
}
