//! The active faults around the store, and the authors of applied commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardwright_store::{Commit, Revision};

use super::executor::TaskId;
use super::fault::StoreFault;
use crate::rng::Rng;

/// Timeout of a request to the store.
pub(crate) const TIMEOUT_US: u64 = 120_000;
/// Most revisions that a stale read may be behind.
pub(crate) const STALE_MAX: u64 = 30;

/// The part of a process's link to the store that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Nothing,
    Replies,
    Everything,
}

/// The author of an applied commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Author {
    pub(crate) process: usize,
    /// The task that sent it.
    pub(crate) task: Option<TaskId>,
    /// Whether a fault wrote it, and no process.
    pub(crate) by_fault: bool,
}

/// The delivery of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Arrive,
    Lose,
    Refuse { is_full: bool },
}

/// The delivery of a commit and of its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Journey {
    pub(crate) number: u64,
    pub(crate) there_us: u64,
    pub(crate) delivery: Delivery,
    pub(crate) back_us: u64,
    pub(crate) reply_lost: bool,
    /// Whether the sender learns of a lost answer at once.
    pub(crate) reset: bool,
    pub(crate) again_us: Option<u64>,
}

/// The faults, shared by all links.
#[derive(Clone)]
pub(crate) struct Faults(Arc<Mutex<State>>);

/// The current faults.
pub(crate) struct State {
    pub(crate) rng: Rng,
    pub(crate) is_stormy: bool,
    /// Whether reads may be stale in this world.
    pub(crate) serves_stale: bool,
    pub(crate) is_full: bool,
    pub(crate) cuts: BTreeMap<usize, Cut>,
    /// Processes that can neither claim nor release shards of a cluster.
    pub(crate) claimless: BTreeSet<usize>,
    pub(crate) counts: BTreeMap<StoreFault, u64>,
    /// The author of each revision.
    pub(crate) authors: BTreeMap<Revision, Author>,
    /// Commits that were applied twice, which must be impossible.
    pub(crate) applied_twice: Vec<(Revision, Commit)>,
    next_number: u64,
    last_applied: u64,
    applied: BTreeSet<u64>,
}

impl Faults {
    pub(crate) fn new(rng: Rng, serves_stale: bool) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng,
            is_stormy: true,
            serves_stale,
            is_full: false,
            cuts: BTreeMap::new(),
            claimless: BTreeSet::new(),
            counts: BTreeMap::new(),
            authors: BTreeMap::new(),
            applied_twice: Vec::new(),
            next_number: 0,
            last_applied: 0,
            applied: BTreeSet::new(),
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Stops all faults.
    pub(crate) fn stop(&mut self) {
        (self.is_stormy, self.is_full, self.serves_stale) = (false, false, false);
        self.cuts.clear();
        self.claimless.clear();
    }

    pub(crate) fn fault(&mut self, fault: StoreFault) {
        *self.counts.entry(fault).or_default() += 1;
    }

    /// Whether a fault with a probability of `permille` strikes now.
    pub(crate) fn strikes(&mut self, permille: u64, fault: StoreFault) -> bool {
        let strikes = self.is_stormy && self.rng.chance(permille);
        if strikes {
            self.fault(fault);
        }
        strikes
    }

    pub(crate) fn cut(&self, process: usize) -> Cut {
        self.cuts.get(&process).copied().unwrap_or(Cut::Nothing)
    }

    /// Delay of a message.
    pub(crate) fn delay_us(&mut self) -> u64 {
        match self.rng.below(100) {
            0..92 => self.rng.between(50, 1_500),
            92..98 if self.is_stormy => self.rng.between(1_500, 12_000),
            98..100 if self.is_stormy => self.rng.between(12_000, 90_000),
            _ => self.rng.between(50, 3_000),
        }
    }

    /// Draws the delivery of a commit.
    pub(crate) fn journey(&mut self) -> Journey {
        self.next_number += 1;
        let mut journey = Journey {
            number: self.next_number,
            there_us: self.delay_us(),
            delivery: Delivery::Arrive,
            back_us: self.delay_us(),
            reply_lost: false,
            reset: self.is_stormy && self.rng.chance(400),
            again_us: None,
        };
        if self.is_full {
            self.fault(StoreFault::DiskFull);
            journey.delivery = Delivery::Refuse { is_full: true };
        } else if self.strikes(14, StoreFault::NotApplied) {
            journey.delivery = Delivery::Refuse { is_full: false };
        } else if self.strikes(14, StoreFault::CommitLost) {
            journey.delivery = Delivery::Lose;
        } else if self.strikes(26, StoreFault::ReplyLost) {
            journey.reply_lost = true;
        } else if self.strikes(14, StoreFault::CommitLate) {
            journey.there_us += TIMEOUT_US + self.rng.below(300_000);
        } else if self.strikes(30, StoreFault::CommitDuplicated) {
            let late = if self.rng.chance(500) { 5_000 } else { 400_000 };
            journey.again_us = Some(self.rng.below(late));
        }
        journey
    }

    /// Notes that a commit was applied.
    pub(crate) fn note_applied(
        &mut self,
        number: u64,
        commit: &Commit,
        revision: Revision,
        author: Author,
    ) {
        self.authors.insert(revision, author);
        if number < self.last_applied {
            self.fault(StoreFault::Overtaken);
        }
        self.last_applied = self.last_applied.max(number);
        let writes = |key| commit.writes().iter().any(|write| write.key() == key);
        // A commit that compares a key that it writes must not apply twice.
        let is_single = commit.expectations().iter().any(|expected| writes(&expected.key));
        if !self.applied.insert(number) && is_single {
            self.applied_twice.push((revision, commit.clone()));
        }
    }
}
