//! The stored coordinator agrees with the in-memory reference.
//!
//! Random sequences of calls, each from a seed, are sent to both on one clock. Every answer,
//! refusal, hint, notice and event is compared, and at the end all stored state. A failing sequence
//! is shortened and printed with the command that repeats its seed.

mod choice;
mod memory;
mod op;
mod pair;
mod tally;

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shardwright_store::file::{FileOptions, FileStore};
use shardwright_store::memory::MemoryStore;
use shardwright_store::{SessionClock, Store};
use tempfile::TempDir;

use self::choice::Choice;
use self::memory::Memory;
use self::op::Op;
use self::pair::{Mismatch, Pair, Setting};
use self::tally::Tally;

const SEQUENCES: u64 = 20_000;
/// Sequences on the file store, which syncs every commit.
const FOLDER_SEQUENCES: u64 = 60;
/// Environment variable with the only seed to run.
const SEED: &str = "DIFFERENTIAL_SEED";

#[test]
fn memory_store_agrees_with_the_reference() {
    let test = "memory_store_agrees_with_the_reference";
    if let Some(tally) = compare_sequences(test, SEQUENCES, true, MemoryStore::new) {
        tally.check();
    }
}

#[test]
fn file_store_agrees_with_the_reference() {
    let test = "file_store_agrees_with_the_reference";
    let (parent, next) = (TempDir::new().unwrap(), AtomicU64::new(0));
    compare_sequences(test, FOLDER_SEQUENCES, false, |clock| {
        let folder = parent.path().join(next.fetch_add(1, Ordering::Relaxed).to_string());
        FileStore::open(folder, FileOptions { clock, ..FileOptions::default() }).unwrap()
    });
}

/// Runs sequences on all cores, and fails with the first failure. Returns the tally, or none if a
/// single seed was requested.
fn compare_sequences<S: Store>(
    test: &str,
    sequences: u64,
    may_share: bool,
    make_store: impl Fn(Arc<dyn SessionClock>) -> S + Sync,
) -> Option<Tally> {
    let compare = |seed| compare_sequence(test, seed, may_share, &make_store);
    if let Some(seed) = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()) {
        compare(seed);
        return None;
    }
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let work = || {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= sequences {
                return tally;
            }
            tally.add(compare(seed));
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut all = Tally::default();
        for worker in workers {
            match worker.join() {
                Ok(tally) => all.add(tally),
                Err(failure) => {
                    next.store(sequences, Ordering::Relaxed);
                    std::panic::resume_unwind(failure);
                }
            }
        }
        Some(all)
    })
}

/// A call, and the interleaving of background tasks.
type Step = (Op, u64);

/// A failed sequence: its calls, and the mismatch.
struct Failure {
    done: Vec<Step>,
    mismatch: Mismatch,
}

fn compare_sequence<S: Store>(
    test: &str,
    seed: u64,
    may_share: bool,
    make_store: &impl Fn(Arc<dyn SessionClock>) -> S,
) -> Tally {
    let mut rng = fastrand::Rng::with_seed(seed);
    let setting = Setting::draw(&mut rng, may_share);
    let mut choices = choice::draw(&mut rng).into_iter();
    let pair = || Pair::new(seed, setting, make_store);
    let drawn = run(pair(), |memory| {
        let choice: Choice = choices.next()?;
        Some((choice.resolve(memory), choice.interleaving))
    });
    let done = match drawn {
        Ok(tally) => return tally,
        Err(Failure { done, .. }) => done,
    };
    let again = |steps: &[Step]| {
        let mut steps = steps.iter().cloned();
        run(pair(), |_| steps.next())
    };
    let shortest = shorten(done, |steps| again(steps).is_err());
    let Err(Failure { done, mismatch }) = again(&shortest) else {
        panic!("seed {seed} fails only sometimes");
    };
    let mut steps = String::new();
    for (step, (op, _)) in done.iter().enumerate() {
        writeln!(steps, "{step:3}  {op:?}").unwrap();
    }
    let Mismatch { what, reference, stored } = mismatch;
    panic!(
        "seed {seed}, {setting:?}: {what} differ after\n{steps}\n\
         the reference answers {reference}\nthe stored coordinator answers {stored}\n\n\
         {SEED}={seed} cargo test -p shardwright-runs --all-features --test stores {test}"
    );
}

/// Runs a sequence to its end or to the first mismatch.
fn run(mut pair: Pair, mut next: impl FnMut(&Memory) -> Option<Step>) -> Result<Tally, Failure> {
    let mut done = Vec::new();
    let result = catch_unwind(AssertUnwindSafe(|| {
        while let Some((op, interleaving)) = next(&pair.memory) {
            done.push((op.clone(), interleaving));
            pair.step(&op, interleaving)?;
        }
        pair.compare_all()
    }));
    let result = result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let stored = format!("a panic: {}", text.unwrap_or_default());
        Err(Mismatch { what: "ends", reference: "no panic".to_owned(), stored })
    });
    result.map_err(|mismatch| Failure { done, mismatch }).map(|()| pair.tally)
}

/// Removes steps that the failure does not need, in ever smaller pieces.
fn shorten(mut steps: Vec<Step>, fails: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let mut piece = steps.len() / 2;
    while piece > 0 {
        let mut start = 0;
        while start < steps.len() {
            let mut shorter = steps.clone();
            shorter.drain(start..(start + piece).min(steps.len()));
            if fails(&shorter) {
                steps = shorter;
            } else {
                start += piece;
            }
        }
        piece /= 2;
    }
    steps
}
