//! The search for planted bugs, on all cores.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

use super::{Bug, Defect};

/// Name of the threads that search. Panics are expected there.
const THREAD: &str = "planted";

/// A bug, and where it was detected.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The bug's row.
    pub defect: Defect,
    /// The seed in whose world the row's oracle detected the bug. None if the bug escaped.
    pub seed: Option<u64>,
}

/// Searches for every bug of one kind of world. The results have the order of the table.
#[must_use]
pub fn find_all<B: Bug>() -> Vec<Found> {
    find_named::<B>("")
}

/// Searches for the bugs whose names contain `name`.
#[must_use]
pub fn find_named<B: Bug>(name: &str) -> Vec<Found> {
    let named = B::ALL.iter().copied().filter(|bug| bug.defect().name.contains(name));
    let named: Vec<B> = named.collect();
    each(&named, |bug| Found { defect: bug.defect(), seed: find(*bug) })
}

/// Searches for one bug, in the world of its recorded seed, then in those of the first seeds.
///
/// Returns the first seed in whose world the row's oracle detects the bug. A finding of another
/// oracle does not count: it does not show that the row's oracle works.
pub fn find<B: Bug>(bug: B) -> Option<u64> {
    let Defect { seed, caught_by, .. } = bug.defect();
    let is_detected = |seed: &u64| bug.live(*seed).iter().any(|it| it.oracle == caught_by);
    std::iter::once(seed).chain(0..B::SEEDS_MAX).find(is_detected)
}

/// Runs `act` for each, on all cores.
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
/// product, which is a detection.
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
