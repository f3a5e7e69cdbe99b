//! What `docs/guarantees.md` names as proof exists.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The names of all functions in the sources.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![root().join("crates"), root().join("examples")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(path).unwrap();
                let named = text.lines().filter_map(|line| line.split_once("fn "));
                let name =
                    |rest: &str| rest.split(['(', '<']).next().unwrap_or_default().to_owned();
                names.extend(named.map(|(_, rest)| name(rest)));
            }
        }
    }
    names
}

#[test]
fn every_test_that_is_named_as_proof_exists() {
    let text = fs::read_to_string(root().join("docs/guarantees.md")).unwrap();
    let quoted = text.split('`').skip(1).step_by(2);
    let is_test = |name: &&str| name.len() > 15 && name.contains('_') && !name.contains([' ', '=']);
    let named: BTreeSet<String> = quoted.filter(is_test).map(str::to_owned).collect();
    assert!(named.len() > 30, "the page was not understood: {named:?}");
    let functions = functions();
    let missing: Vec<&String> = named.difference(&functions).collect();
    assert!(missing.is_empty(), "there is no test called {missing:?}");
}
