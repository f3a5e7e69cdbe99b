//! The names of all tests in the sources.

#[cfg(test)]
use std::{collections::BTreeSet, fs, path::Path};

/// The names of the tests of all crates, as far as the sources contain them.
#[cfg(test)]
pub(crate) fn below(root: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = ["crates", "examples", "specs"].map(|folder| root.join(folder)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let tests = tests_in(&fs::read_to_string(path).unwrap());
                names.extend(tests.into_iter().map(|(_, name)| name));
            }
        }
    }
    names
}

/// The functions that follow a test attribute, with their lines.
pub(crate) fn tests_in(text: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    let mut is_test = false;
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ") {
            let name = rest.split(['(', '<']).next().unwrap_or_default().to_owned();
            names.extend(is_test.then_some((number, name)));
            is_test = false;
        }
    }
    names
}
