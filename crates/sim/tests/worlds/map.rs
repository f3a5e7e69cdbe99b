//! The table of promises in `specs/README.md` names the oracles.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use shardwright_sim::oracle;

/// The names in the column of the simulator.
fn mapped() -> BTreeSet<String> {
    let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs/README.md");
    let text = fs::read_to_string(specs).unwrap();
    let map = text.split("\n## ").find(|part| part.starts_with("Which promise")).unwrap();
    let rows = map.lines().filter(|line| line.starts_with("| ") && !line.contains("| simulator |"));
    let column = rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit(" | ").next());
    column.flat_map(|names| names.split(", ")).map(str::to_owned).collect()
}

#[test]
fn promise_table_names_exactly_the_oracles() {
    let oracles: BTreeSet<_> = oracle::ALL.iter().map(|one| one.name.to_owned()).collect();
    assert_eq!(mapped(), oracles);
}
