//! The search for planted bugs, on all cores.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

use super::{Bug, Defect};

/// The name of the threads that search. Panics are expected there.
const THREAD: &str = "planted";

/// How a planted bug was caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detection {
    /// The seed whose world showed it.
    pub seed: u64,
    /// The oracles that saw it in the step that gave it away.
    pub oracles: Vec<&'static str>,
}

/// A bug and how it was caught, if it was.
#[derive(Clone, Debug)]
pub struct Found {
    /// The bug's row.
    pub defect: Defect,
    /// None if it escaped.
    pub detection: Option<Detection>,
}

/// Looks for every bug of one kind of world. The results have the order of the table.
#[must_use]
pub fn find_all<B: Bug>() -> Vec<Found> {
    find_named::<B>("")
}

/// Looks for the bugs whose names contain `name`.
#[must_use]
pub fn find_named<B: Bug>(name: &str) -> Vec<Found> {
    let named = B::ALL.iter().copied().filter(|bug| bug.defect().name.contains(name));
    let named: Vec<B> = named.collect();
    each(&named, |bug| Found { defect: bug.defect(), detection: find(*bug) })
}

/// Looks for one bug: in the world of its recorded seed, then in those of the first seeds.
///
/// A detection by the recorded oracle is preferred to one by another.
pub fn find<B: Bug>(bug: B) -> Option<Detection> {
    let Defect { seed, caught_by, .. } = bug.defect();
    let mut other = None;
    for seed in std::iter::once(seed).chain(0..B::SEEDS_MAX) {
        match caught(bug, seed) {
            Some(detection) if detection.oracles.contains(&caught_by) => return Some(detection),
            detection => other = other.or(detection),
        }
    }
    other
}

/// Looks for a bug that a given oracle catches, in the worlds of the first seeds. Bugs whose row
/// names the oracle come first.
#[must_use]
pub fn find_with<B: Bug>(oracle: &str) -> Option<Detection> {
    let is_its = |bug: &B| bug.defect().caught_by == oracle;
    let (its, others): (Vec<B>, Vec<B>) = B::ALL.iter().copied().partition(is_its);
    [its, others].into_iter().find_map(|bugs| {
        (0..B::SEEDS_MAX).find_map(|seed| {
            let catches = each(&bugs, |bug| caught(*bug, seed));
            catches.into_iter().flatten().find(|detection| detection.oracles.contains(&oracle))
        })
    })
}

fn caught<B: Bug>(bug: B, seed: u64) -> Option<Detection> {
    let findings = bug.live(seed);
    let oracles: Vec<_> = findings.iter().map(|finding| finding.oracle).collect();
    (!oracles.is_empty()).then_some(Detection { seed, oracles })
}

/// Does something for each, on all cores.
fn each<T: Sync, R: Send>(all: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    expect_panics();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(index) else { return };
            let result = act(one);
            done.lock().unwrap_or_else(PoisonError::into_inner).insert(index, result);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let spawned = thread::Builder::new().name(THREAD.to_owned()).spawn_scoped(scope, work);
            assert!(spawned.is_ok(), "no thread for a search: {:?}", spawned.err());
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

/// Lets searching threads panic without a message. A planted bug may trip an assertion of the
/// product: that is a detection, not a crash.
fn expect_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if thread::current().name() != Some(THREAD) {
                hook(info);
            }
        }));
    });
}
