//! The layers of the architecture, as a table of downward arrows.

use std::collections::BTreeSet;

/// One crate and the arrows that leave it; names are without the common prefix.
pub(crate) struct Layer {
    pub(crate) name: &'static str,
    /// The crates that it depends on. The crates below them follow from their own rows.
    pub(crate) arrows: &'static [&'static str],
}

const LAYERS: &[Layer] = &[
    row("contracts", &[]),
    row("frontier", &["contracts"]),
    row("coordination", &["contracts"]),
    row("placement", &["contracts"]),
    row("store", &[]),
    row("engine", &["contracts", "store"]),
    row("runs", &["engine", "coordination"]),
    row("cluster", &["engine", "placement"]),
    row("api", &["contracts"]),
    row("scan", &[]),
    row("worker", &["coordination", "frontier"]),
    row("connectors", &["worker"]),
    row("process", &["worker", "scan"]),
    row("node", &["cluster", "api"]),
    row("server", &["runs", "cluster", "api"]),
    row("sim", &["runs", "worker", "node"]),
    row("chaos", &["runs"]),
    row("jobs", &["runs", "connectors", "process"]),
    row("demo", &["node"]),
    row("counter", &["demo"]),
    row("cli", &["jobs", "demo"]),
    row("shardwright", &["jobs"]),
    row("examples", &["shardwright"]),
    row("specs", &["coordination"]),
    row("xtask", &[]),
];

const fn row(name: &'static str, arrows: &'static [&'static str]) -> Layer {
    Layer { name, arrows }
}

/// Groups of siblings. No crate may name another of its group.
pub(crate) const SIBLINGS: &[&[&str]] =
    &[&["frontier", "coordination", "placement"], &["runs", "cluster"]];

/// The pure crates: their results depend on the arguments alone.
pub(crate) const PURE: &[&str] = &["contracts", "frontier", "coordination", "placement"];

/// The crates that the simulator runs. All their actions must be replayable, except in the module
/// `world`, which adapts the real runtime.
pub(crate) const SIMULATED: &[&str] = &["engine", "runs", "cluster", "worker", "node"];

/// The row of a crate, by its short name.
pub(crate) fn layer(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

/// The crates that a layer has an arrow to, and all crates below them.
pub(crate) fn beneath(layer: &Layer) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let mut pending = layer.arrows.to_vec();
    while let Some(name) = pending.pop() {
        if found.insert(name) {
            pending.extend(LAYERS.iter().filter(|other| other.name == name).flat_map(|l| l.arrows));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arrow_leads_to_a_row_and_never_back() {
        for layer in LAYERS {
            assert!(!beneath(layer).contains(layer.name), "{} is beneath itself", layer.name);
            for arrow in layer.arrows {
                assert!(LAYERS.iter().any(|other| other.name == *arrow), "{arrow} has no row");
            }
        }
    }

    #[test]
    fn a_crate_is_above_everything_that_its_arrows_reach() {
        let names = |name| beneath(layer(name).unwrap()).into_iter().collect::<Vec<_>>();
        assert_eq!(names("worker"), ["contracts", "coordination", "frontier"]);
        assert_eq!(names("engine"), ["contracts", "store"]);
        assert_eq!(names("runs"), ["contracts", "coordination", "engine", "store"]);
        assert!(names("contracts").is_empty() && names("store").is_empty());
        let under_cli = names("cli");
        let product = ["contracts", "coordination", "engine", "runs", "cluster", "node", "jobs"];
        assert!(product.iter().all(|name| under_cli.contains(name)), "{under_cli:?}");
        let checks = ["sim", "chaos", "specs", "xtask", "examples"];
        assert!(!checks.iter().any(|name| under_cli.contains(name)), "{under_cli:?}");
    }

    #[test]
    fn no_sibling_is_beneath_another() {
        for group in SIBLINGS {
            for name in *group {
                let beneath = beneath(layer(name).unwrap());
                assert!(group.iter().all(|other| !beneath.contains(other)), "{name}");
            }
        }
    }
}
