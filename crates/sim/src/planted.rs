//! The hunt for bugs planted on purpose.

use shardwright_coordination::planted::{Defect, activate};

use crate::sweep::STEPS;
use crate::world;

/// Within how many seeds every planted bug has to be caught.
pub const SEEDS_MAX: u64 = 200;

/// How a planted bug was caught.
#[derive(Clone, Debug)]
pub struct Catch {
    /// The bug.
    pub defect: Defect,
    /// The seed whose world showed it.
    pub seed: u64,
    /// The oracles that saw it in the step that gave it away.
    pub oracles: Vec<&'static str>,
}

/// Looks for a bug that a given oracle catches, in the worlds of the first seeds. A hunt ends with
/// the first step that gives a bug away, which may be another oracle's.
#[must_use]
pub fn hunt_with(oracle: &str) -> Option<Catch> {
    let worlds = (0..SEEDS_MAX).flat_map(|seed| Defect::ALL.iter().map(move |it| (seed, *it)));
    quietly(|| {
        let mut catches = worlds.filter_map(|(seed, defect)| live_with(defect, seed));
        catches.find(|catch| catch.oracles.contains(&oracle))
    })
}

/// Plants a bug and lives through worlds until one of them gives it away.
///
/// The bug is active in the whole process while this runs.
#[must_use]
pub fn hunt(defect: Defect) -> Option<Catch> {
    (0..SEEDS_MAX).find_map(|seed| live_with(defect, seed))
}

fn live_with(defect: Defect, seed: u64) -> Option<Catch> {
    activate(Some(defect));
    let findings = world::live(seed, STEPS, false).findings;
    activate(None);
    let oracles: Vec<_> = findings.iter().map(|finding| finding.oracle).collect();
    (!oracles.is_empty()).then_some(Catch { defect, seed, oracles })
}

/// Hunts for every planted bug; those that got away come without a catch.
#[must_use]
pub fn hunt_all() -> Vec<(Defect, Option<Catch>)> {
    quietly(|| Defect::ALL.iter().map(|defect| (*defect, hunt(*defect))).collect())
}

/// A planted bug may trip an assertion of the protocol's own: that is a catch, not a crash.
fn quietly<T>(hunt: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let caught = hunt();
    std::panic::set_hook(hook);
    caught
}
