//! The hunt for bugs planted on purpose.

use shardwright_coordination::planted as protocol;
use shardwright_engine::cluster::planted as cluster;
use shardwright_engine::planted as engine;
use shardwright_node::planted as node;

use crate::oracle::Finding;
use crate::sweep::STEPS;
use crate::{clusters, stored, world};

/// Within how many seeds every planted bug has to be caught.
pub const SEEDS_MAX: u64 = 200;
/// The same around a store, where most of what happens has nothing to do with a given rule.
pub const STORED_SEEDS_MAX: u64 = 500;

/// How a planted bug was caught.
#[derive(Clone, Debug)]
pub struct Catch {
    /// The seed whose world showed it.
    pub seed: u64,
    /// The oracles that saw it in the step that gave it away.
    pub oracles: Vec<&'static str>,
}

/// A bug and how it was caught, if it was.
#[derive(Clone, Debug)]
pub struct Hunted {
    /// Its name.
    pub name: String,
    /// What is wrong while it is active.
    pub sentence: &'static str,
    /// None if it got away.
    pub catch: Option<Catch>,
}

/// Hunts for every bug planted in the operations, in worlds around the in-memory backend.
///
/// A bug is active in the whole process while it is hunted for.
#[must_use]
pub fn hunt_in_protocol() -> Vec<Hunted> {
    let hunt = |defect: &protocol::Defect| Hunted {
        name: format!("{defect:?}"),
        sentence: defect.sentence(),
        catch: (0..SEEDS_MAX).find_map(|seed| live_with(*defect, seed)),
    };
    quietly(|| protocol::Defect::ALL.iter().map(hunt).collect())
}

/// Looks for a bug in the operations that a given oracle catches, in the worlds of the first seeds.
/// A hunt ends with the first step that gives a bug away, which may be another oracle's.
#[must_use]
pub fn hunt_with(oracle: &str) -> Option<Catch> {
    let defects = protocol::Defect::ALL;
    let worlds = (0..SEEDS_MAX).flat_map(|seed| defects.iter().map(move |it| (seed, *it)));
    quietly(|| {
        let mut catches = worlds.filter_map(|(seed, defect)| live_with(defect, seed));
        catches.find(|catch| catch.oracles.contains(&oracle))
    })
}

/// Hunts for every bug planted in the engine, in worlds around a store.
///
/// A bug is active in the whole process while it is hunted for.
#[must_use]
pub fn hunt_in_engine() -> Vec<Hunted> {
    let hunt = |defect: &engine::Defect| Hunted {
        name: format!("{defect:?}"),
        sentence: defect.sentence(),
        catch: (0..STORED_SEEDS_MAX).find_map(|seed| store_with(*defect, seed)),
    };
    quietly(|| engine::Defect::ALL.iter().map(hunt).collect())
}

/// Looks for a bug in the engine that a given oracle catches, in the worlds of the first seeds.
/// A hunt ends with the first commit or answer that gives a bug away.
#[must_use]
pub fn hunt_in_engine_with(oracle: &str) -> Option<Catch> {
    let defects = engine::Defect::ALL;
    let worlds = (0..STORED_SEEDS_MAX).flat_map(|seed| defects.iter().map(move |it| (seed, *it)));
    quietly(|| {
        let mut catches = worlds.filter_map(|(seed, defect)| store_with(defect, seed));
        catches.find(|catch| catch.oracles.contains(&oracle))
    })
}

/// Hunts for every bug planted in nodes, gates and what drives the cluster protocol.
///
/// A bug is active in the whole process while it is hunted for.
#[must_use]
pub fn hunt_in_clusters() -> Vec<Hunted> {
    let driver = cluster::Defect::ALL.iter().map(|defect| {
        let hunt = || first_catch(|seed| cluster_with(*defect, seed));
        (format!("{defect:?}"), defect.sentence(), quietly(hunt))
    });
    let nodes = node::Defect::ALL.iter().map(|defect| {
        let hunt = || first_catch(|seed| node_with(*defect, seed));
        (format!("{defect:?}"), defect.sentence(), quietly(hunt))
    });
    let all = driver.chain(nodes);
    all.map(|(name, sentence, catch)| Hunted { name, sentence, catch }).collect()
}

/// Looks for a bug in clusters that a given oracle catches, in the worlds of the first seeds. A
/// world ends with the first sentence that is broken, which may be another oracle's.
#[must_use]
pub fn hunt_in_clusters_with(oracle: &str) -> Option<Catch> {
    let is_its = |catch: &Catch| catch.oracles.contains(&oracle);
    let in_world = |seed| {
        let driver = cluster::Defect::ALL.iter().filter_map(|one| cluster_with(*one, seed));
        let nodes = node::Defect::ALL.iter().filter_map(|one| node_with(*one, seed));
        driver.chain(nodes).find(is_its)
    };
    quietly(|| first_catch(in_world))
}

fn first_catch(hunt: impl FnMut(u64) -> Option<Catch>) -> Option<Catch> {
    (0..SEEDS_MAX).find_map(hunt)
}

fn cluster_with(defect: cluster::Defect, seed: u64) -> Option<Catch> {
    cluster::activate(Some(defect));
    let findings = clusters::live(seed, clusters::ACTS, false).findings;
    cluster::activate(None);
    caught(seed, &findings)
}

fn node_with(defect: node::Defect, seed: u64) -> Option<Catch> {
    node::activate(Some(defect));
    let findings = clusters::live(seed, clusters::ACTS, false).findings;
    node::activate(None);
    caught(seed, &findings)
}

fn live_with(defect: protocol::Defect, seed: u64) -> Option<Catch> {
    protocol::activate(Some(defect));
    let findings = world::live(seed, STEPS, false).findings;
    protocol::activate(None);
    caught(seed, &findings)
}

fn store_with(defect: engine::Defect, seed: u64) -> Option<Catch> {
    engine::activate(Some(defect));
    let findings = stored::live(seed, stored::ACTS, false).findings;
    engine::activate(None);
    caught(seed, &findings)
}

fn caught(seed: u64, findings: &[Finding]) -> Option<Catch> {
    let oracles: Vec<_> = findings.iter().map(|finding| finding.oracle).collect();
    (!oracles.is_empty()).then_some(Catch { seed, oracles })
}

/// A planted bug may trip an assertion of the code's own: that is a catch, not a crash.
fn quietly<T>(hunt: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = hunt();
    std::panic::set_hook(hook);
    result
}
