//! The tables of this module, the specification and its description agree.

use std::fs;
use std::path::Path;

use super::*;

fn specs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(SPECS)
}

fn read(file: &str) -> String {
    fs::read_to_string(specs().join(file)).unwrap()
}

fn all_checks() -> impl Iterator<Item = &'static Check> {
    SMALL.iter().chain(LARGE)
}

#[test]
fn every_defect_can_be_planted_and_changes_the_module() {
    let module = read(mutation::MODULE);
    for mutation in mutation::all() {
        let broken = mutation.apply(&module);
        let broken = broken.unwrap_or_else(|error| panic!("{}: {error}", mutation.name));
        assert_ne!(broken, module, "{}", mutation.name);
    }
}

#[test]
fn every_defect_has_its_own_name_and_a_checked_property() {
    let mut names = BTreeSet::new();
    for Mutation { name, property, config, .. } in mutation::all() {
        assert!(names.insert(name), "{name} twice");
        assert!(config::only(&read(config), property).is_ok(), "{name}: {property} in {config}");
    }
}

#[test]
fn every_property_was_seen_to_fail() {
    let caught: BTreeSet<_> = mutation::all().iter().map(|mutation| mutation.property).collect();
    for check in all_checks() {
        for property in config::properties(&read(check.config)) {
            assert!(caught.contains(property), "no defect is caught by {property}");
        }
    }
}

#[test]
fn all_bounds_check_the_same_properties() {
    for of_behaviours in [false, true] {
        let mut alike = all_checks()
            .filter(|check| config::is_temporal(check.config) == of_behaviours)
            .map(|check| (check.config, read(check.config)));
        let (_, first) = alike.next().unwrap();
        for (name, other) in alike {
            assert_eq!(config::properties(&other), config::properties(&first), "{name}");
        }
    }
}

#[test]
fn the_readme_lists_every_property_defect_and_configuration() {
    let readme = fs::read_to_string(specs().join("../README.md")).unwrap();
    for Mutation { name, property, .. } in mutation::all() {
        let row = readme.lines().find(|line| line.contains(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("no row for {name}"));
        assert!(row.ends_with(&format!("| `{property}` |")), "{row}");
    }
    for Check { config, distinct, .. } in all_checks() {
        for property in config::properties(&read(config)) {
            let row = format!("| `{property}` |");
            assert!(readme.lines().any(|line| line.starts_with(&row)), "no row for {property}");
        }
        let row = readme.lines().find(|line| line.starts_with(&format!("| `{config}` |")));
        let row = row.unwrap_or_else(|| panic!("no row for {config}")).replace(',', "");
        assert!(row.contains(&format!("| {distinct} |")), "{row}");
    }
}

fn report(output: &str) -> Report {
    Report::read(output.to_owned(), std::time::Duration::ZERO)
}

#[test]
fn a_configuration_is_accepted_only_with_its_number_of_states() {
    let holds = report(
        "Model checking completed. No error has been found.\n\
         9 states generated, 4 distinct states found, 0 states left on queue.\n",
    );
    accept(&holds, 4).unwrap();
    let message = format!("{:#}", accept(&holds, 5).unwrap_err());
    assert!(message.starts_with("4 states instead of 5"), "{message}");
}

#[test]
fn a_violation_shows_its_counterexample() {
    let violated = report("Error: Invariant LeavesTile is violated.\nState 1:\n");
    let message = format!("{:#}", accept(&violated, 4).unwrap_err());
    assert!(message.contains("LeavesTile") && message.contains("State 1:"), "{message}");
    assert!(accept(&report("Error: Temporal properties were violated.\n"), 0).is_err());
    assert!(accept(&report(""), 0).is_err());
}
