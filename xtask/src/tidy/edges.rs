//! Which crate may depend on which: dependencies run one way, and pure crates stay pure.
//!
//! The arrows of the architecture are in `layers`. In normal and build dependencies, a crate may
//! use the crates at its arrows and all crates below them. A dev-dependency may point anywhere but
//! to a sibling. Those of a pure crate point downward only, because the crates above it depend on
//! its siblings.

use std::collections::BTreeSet;

use cargo_metadata::DependencyKind;

use super::Violation;
use super::crates::{Crate, Dependency, PREFIX, short_name};
use super::layers::{Layer, PURE, SIBLINGS, beneath, layer};

/// The external crates that a pure crate may use, and why they are pure.
const PURE_EXTERNAL: &[(&str, &str)] = &[
    ("arrayvec", "bounded inline storage, no allocation and no IO"),
    ("blake3", "a hash is a function of its input"),
    ("serde", "trait implementations without a format, behind a feature"),
    ("thiserror", "writes error implementations at compile time, without a run-time part"),
];

/// The crate that users depend on.
const FACADE: &str = "shardwright";

/// Everything wrong with the dependencies and names of the crates.
pub(crate) fn check(crates: &[Crate]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for one in crates {
        violations.extend(misnamed(one));
        let Some(layer) = layer(one.short_name()) else {
            let what = format!("crate {} has no row in the table of layers", one.name);
            let why = "decide what it may depend on, in the edge rule of tidy";
            violations.push(Violation::new(&one.manifest(), 1, what, why));
            continue;
        };
        let beneath = beneath(layer);
        for dependency in &one.dependencies {
            if let Some((what, why)) = wrong_with(layer, &beneath, dependency) {
                let what = format!("{} → {}: {what}", one.name, dependency.name);
                violations.push(Violation::new(&one.manifest(), 1, what, why));
            }
        }
    }
    violations
}

fn misnamed(one: &Crate) -> Option<Violation> {
    let folder = one.folder.strip_prefix("crates").ok()?.to_string_lossy();
    // The facade has the name of the project.
    let expected = match &*folder {
        FACADE => FACADE.to_owned(),
        folder => format!("{PREFIX}{folder}"),
    };
    let what = format!("the package in crates/{folder} is named {}", one.name);
    let why = format!("a crate is named after its folder: {expected}");
    (one.name != expected).then(|| Violation::new(&one.manifest(), 1, what, why))
}

fn wrong_with(
    layer: &Layer,
    beneath: &BTreeSet<&str>,
    dependency: &Dependency,
) -> Option<(&'static str, String)> {
    let name = short_name(&dependency.name);
    let dev = dependency.kind == DependencyKind::Development;
    let ours = dependency.local || dependency.name.starts_with(PREFIX);
    let siblings =
        SIBLINGS.iter().find(|group| group.contains(&layer.name) && group.contains(&name));
    if let Some(group) = siblings.filter(|_| ours) {
        let names = group.join(", ");
        let why = format!("{names} are siblings: none may name another, not even in a test");
        return Some(("an edge between siblings", why));
    }
    let pure = PURE.contains(&layer.name);
    if ours && (pure || !dev) && !beneath.contains(name) {
        let allowed: Vec<&str> = beneath.iter().copied().collect();
        let allowed = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
        return Some((
            "a forbidden edge",
            format!("arrows go down only; of ours, {} may use: {allowed}", layer.name),
        ));
    }
    if dev {
        return None;
    }
    if !ours && pure && !PURE_EXTERNAL.iter().any(|(allowed, _)| *allowed == name) {
        let allowed: Vec<String> =
            PURE_EXTERNAL.iter().map(|(name, reason)| format!("{name} ({reason})")).collect();
        let why = format!("a pure crate may use only: {}", allowed.join("; "));
        return Some(("an external dependency of a pure crate", why));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, dependencies: &[(&str, DependencyKind)]) -> Crate {
        let folder = match name.strip_prefix(PREFIX) {
            Some(short) if short != "examples" => format!("crates/{short}"),
            _ => short_name(name).to_owned(),
        };
        let dependencies = dependencies.iter().map(|(name, kind)| Dependency {
            name: (*name).to_owned(),
            kind: *kind,
            local: name.starts_with(PREFIX) || *name == "xtask",
        });
        Crate { name: name.to_owned(), folder: folder.into(), dependencies: dependencies.collect() }
    }

    fn violations(one: Crate) -> Vec<String> {
        check(&[one]).iter().map(Violation::to_string).collect()
    }

    /// Whether `from` may have `to` as a dependency of that kind.
    fn allows(from: &str, to: &str, kind: DependencyKind) -> bool {
        violations(named(from, &[(to, kind)])).is_empty()
    }

    #[test]
    fn crates_at_and_below_an_arrow_are_allowed() {
        use DependencyKind::{Build, Normal};
        assert!(allows("shardwright-frontier", "shardwright-contracts", Normal));
        assert!(allows("shardwright-engine", "shardwright-store", Normal));
        assert!(allows("shardwright-engine", "shardwright-contracts", Build));
        assert!(allows("shardwright-node", "shardwright-placement", Normal));
        assert!(allows("shardwright-sim", "shardwright-frontier", Normal));
        assert!(allows("shardwright-cli", "shardwright-frontier", Normal));
        assert!(allows("shardwright-examples", "shardwright-worker", Normal));
    }

    #[test]
    fn edges_that_go_up_or_across_are_forbidden() {
        use DependencyKind::{Build, Normal};
        assert!(!allows("shardwright-contracts", "shardwright-frontier", Normal));
        assert!(!allows("shardwright-store", "shardwright-contracts", Normal));
        assert!(!allows("shardwright-api", "shardwright-placement", Normal));
        assert!(!allows("shardwright-worker", "shardwright-engine", Normal));
        assert!(!allows("shardwright-worker", "shardwright-connectors", Normal));
        assert!(!allows("shardwright-process", "shardwright-connectors", Normal));
        assert!(!allows("shardwright-engine", "shardwright-frontier", Build));
        assert!(!allows("shardwright-engine", "shardwright-coordination", Normal));
        assert!(!allows("shardwright-node", "shardwright-coordination", Normal));
        assert!(!allows("shardwright-server", "shardwright-node", Normal));
        assert!(!allows("shardwright-cli", "shardwright-sim", Normal));
        assert!(!allows("shardwright-cli", "xtask", Normal));
        assert!(!allows("xtask", "shardwright-contracts", Normal));
    }

    #[test]
    fn siblings_may_not_depend_on_each_other_at_all() {
        use DependencyKind::{Build, Development, Normal};
        for kind in [Normal, Build, Development] {
            assert!(!allows("shardwright-frontier", "shardwright-coordination", kind));
            assert!(!allows("shardwright-placement", "shardwright-frontier", kind));
            assert!(!allows("shardwright-coordination", "shardwright-placement", kind));
            assert!(!allows("shardwright-runs", "shardwright-cluster", kind));
        }
        assert!(allows("shardwright-engine", "shardwright-frontier", Development));
    }

    #[test]
    fn tests_of_a_pure_crate_use_nothing_above_it() {
        use DependencyKind::Development;
        assert!(!allows("shardwright-frontier", "shardwright-engine", Development));
        assert!(!allows("shardwright-contracts", "shardwright-frontier", Development));
        assert!(allows("shardwright-frontier", "shardwright-contracts", Development));
        assert!(allows("shardwright-frontier", "proptest", Development));
    }

    #[test]
    fn a_crate_without_a_row_is_a_violation() {
        let found = violations(named("shardwright-extra", &[]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/extra/Cargo.toml:1: "), "{found:?}");
    }

    #[test]
    fn a_crate_not_named_after_its_folder_is_a_violation() {
        let misnamed = Crate { folder: "crates/shop".into(), ..named("shardwright-store", &[]) };
        assert!(violations(misnamed)[0].contains("named after its folder"));
        assert!(violations(named("shardwright-store", &[])).is_empty());
        assert!(violations(named("xtask", &[])).is_empty());
    }

    #[test]
    fn a_pure_crate_may_use_only_listed_crates_from_outside() {
        use DependencyKind::{Development, Normal};
        assert!(allows("shardwright-coordination", "blake3", Normal));
        for name in ["rand", "tokio", "tracing", "hashbrown"] {
            assert!(!allows("shardwright-coordination", name, Normal), "{name}");
        }
        assert!(allows("shardwright-coordination", "rand", Development));
        assert!(allows("shardwright-engine", "tokio", Normal));
    }
}
