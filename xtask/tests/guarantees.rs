//! What `docs/guarantees.md` names as proof exists, and each of its rows names some.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The names of all tests in the sources.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![root().join("crates"), root().join("examples")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                names.extend(tests_in(&fs::read_to_string(path).unwrap()));
            }
        }
    }
    names
}

/// The functions that come right after an attribute that makes them tests.
fn tests_in(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ") {
            let name = rest.split(['(', '<']).next().unwrap_or_default().to_owned();
            names.extend(is_test.then_some(name));
            is_test = false;
        }
    }
    names
}

/// The cells with proof, one of each row of the page's tables.
fn proofs(page: &str) -> Vec<(String, String)> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let proof = |cells: Vec<&str>| match cells.as_slice() {
        ["", "store", "what holds", "test", ""] | ["", "---", "---", "---", ""] => None,
        ["", _, claim, proof, ""] => Some(((*claim).to_owned(), (*proof).to_owned())),
        other => Some((format!("a row that is not understood: {other:?}"), String::new())),
    };
    cells.filter_map(proof).collect()
}

/// What stands between marks.
fn marked<'t>(text: &'t str, mark: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(mark).skip(1).step_by(2)
}

#[test]
fn every_row_names_tests_that_exist() {
    let (page, tests) = (read("docs/guarantees.md"), tests());
    let proofs = proofs(&page);
    assert!(proofs.len() > 20, "the page was not understood: {proofs:?}");
    for (claim, proof) in proofs {
        assert!(marked(&proof, "`").next().is_some(), "no test says so: {claim}");
        let missing: Vec<&str> =
            marked(&proof, "`").filter(|name| !tests.contains(*name)).collect();
        assert!(missing.is_empty(), "there is no test called {missing:?}");
    }
}

#[test]
fn every_fault_that_is_named_exists() {
    let faults = read("crates/chaos/src/nemesis.rs") + &read("crates/sim/src/ground/fault.rs");
    let mut named = 0;
    for (_, proof) in proofs(&read("docs/guarantees.md")) {
        for fault in marked(&proof, "*") {
            assert!(faults.contains(&format!("\"{fault}\"")), "there is no fault called {fault}");
            named += 1;
        }
    }
    assert!(named > 10, "the page was not understood");
}
