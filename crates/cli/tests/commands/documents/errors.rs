//! The page for operators names every error.

use std::collections::BTreeSet;
use std::fs;

use super::root;

/// Files with an enum of errors that an operator may see.
const ENUMS: [(&str, &str); 4] = [
    ("crates/contracts/src/infra.rs", "InfraError"),
    ("crates/worker/src/error.rs", "WorkerError"),
    ("crates/coordination/src/error/operation.rs", "CoordError"),
    ("crates/api/src/error.rs", "CallError"),
];

/// The variants of an enum in a formatted file.
fn variants(text: &str, name: &str) -> BTreeSet<String> {
    let start = format!("pub enum {name} {{");
    let lines = text.lines().skip_while(|line| *line != start).skip(1);
    let lines = lines.take_while(|line| *line != "}");
    let names = lines.filter_map(|line| line.strip_prefix("    "));
    let names = names.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    names.filter_map(|line| line.split([' ', '(', ',']).next().map(str::to_owned)).collect()
}

#[test]
fn the_operations_page_names_every_error() {
    let page = fs::read_to_string(root().join("docs/operations.md")).unwrap();
    for (file, name) in ENUMS {
        let variants = variants(&fs::read_to_string(root().join(file)).unwrap(), name);
        assert!(variants.len() > 2, "{name}: {variants:?}");
        for variant in variants {
            assert!(page.contains(&format!("`{variant}`")), "{name}::{variant} is missing");
        }
    }
}

#[test]
fn variants_of_all_forms_are_found() {
    let text =
        "pub enum E {\n    /// Doc.\n    A,\n    B(u8),\n    C {\n        D: u8,\n    },\n}\n";
    let expected = ["A", "B", "C"].map(str::to_owned);
    assert_eq!(variants(text, "E"), BTreeSet::from(expected));
}
