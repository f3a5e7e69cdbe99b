//! The names of all tests in the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names of the tests of all crates, as far as the sources contain them.
pub(crate) fn below(root: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = ["crates", "examples", "specs"].map(|folder| root.join(folder)).to_vec();
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

/// The functions that follow a test attribute.
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
