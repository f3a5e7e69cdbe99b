//! Injects faults, in an order that a seed decides.
//!
//! There are two nemeses, one for the members and one for the workers, so that faults of both kinds
//! overlap. Each repeats all its faults in random order.

mod members;
mod workers;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use crate::history;

pub use members::{Members, QUOTA};
pub use workers::Workers;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A member is killed and started again.
    KillMember,
    /// The leader is killed and started again.
    KillLeader,
    /// Two members of three are killed and started again.
    KillMajority,
    /// A member is paused and resumed.
    PauseMember,
    /// The leader is paused and resumed.
    PauseLeader,
    /// No worker can reach a member.
    IsolateMember,
    /// A member is partitioned from the other members.
    PartitionMember,
    /// The leader is partitioned from the other members, but reachable for workers.
    PartitionLeader,
    /// All traffic to and from a member is delayed.
    SlowMember,
    /// The history is compacted.
    Compact,
    /// A member is defragmented, which blocks it meanwhile.
    Defragment,
    /// The storage quota is full until the members are defragmented.
    FillQuota,
    /// A worker is killed and replaced.
    KillWorker,
    /// A worker is paused for longer than its leases, and resumed.
    PauseWorker,
    /// A worker can reach no member.
    IsolateWorker,
    /// Requests of workers arrive, but their answers are lost.
    LoseAnswers,
}

impl Fault {
    /// Faults of members.
    pub const OF_MEMBERS: &[Self] = &[
        Self::KillMember,
        Self::KillLeader,
        Self::KillMajority,
        Self::PauseMember,
        Self::PauseLeader,
        Self::IsolateMember,
        Self::PartitionMember,
        Self::PartitionLeader,
        Self::SlowMember,
        Self::Compact,
        Self::Defragment,
        Self::FillQuota,
    ];
    /// Its name in reports and in `docs/guarantees.md`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KillMember => "member killed",
            Self::KillLeader => "leader killed",
            Self::KillMajority => "majority killed",
            Self::PauseMember => "member paused",
            Self::PauseLeader => "leader paused",
            Self::IsolateMember => "member unreachable",
            Self::PartitionMember => "member without peers",
            Self::PartitionLeader => "leader without peers",
            Self::SlowMember => "member slow",
            Self::Compact => "history compacted",
            Self::Defragment => "member defragmented",
            Self::FillQuota => "quota full",
            Self::KillWorker => "worker killed",
            Self::PauseWorker => "worker paused",
            Self::IsolateWorker => "worker partitioned",
            Self::LoseAnswers => "answers lost",
        }
    }

    /// Faults of workers.
    pub const OF_WORKERS: &[Self] =
        &[Self::KillWorker, Self::PauseWorker, Self::IsolateWorker, Self::LoseAnswers];
}

/// Counts and a log of the injected faults.
#[derive(Debug)]
pub struct Record {
    counts: Mutex<BTreeMap<Fault, u64>>,
    log: File,
}

impl Record {
    /// Creates an empty record.
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { counts: Mutex::default(), log: File::create(path)? })
    }

    /// Adds a line to the log.
    pub fn note(&self, text: &str) -> Result<()> {
        Ok(writeln!(&self.log, "{} {text}", history::now() / 1_000)?)
    }

    fn count(&self, fault: Fault) {
        if let Ok(mut counts) = self.counts.lock() {
            *counts.entry(fault).or_default() += 1;
        }
    }

    /// Number of occurrences of each fault.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<Fault, u64> {
        self.counts.lock().map(|counts| counts.clone()).unwrap_or_default()
    }

    /// The faults that have not occurred yet.
    #[must_use]
    pub fn missing(&self) -> Vec<Fault> {
        let counts = self.counts();
        let all = Fault::OF_MEMBERS.iter().chain(Fault::OF_WORKERS);
        all.filter(|fault| !counts.contains_key(fault)).copied().collect()
    }
}

/// When to stop injecting faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// As soon as each fault has occurred.
    EachOccurred,
    /// At a time.
    Time(Instant),
}

impl Until {
    fn is_over(self, record: &Record) -> bool {
        match self {
            Self::EachOccurred => record.missing().is_empty(),
            Self::Time(time) => Instant::now() >= time,
        }
    }
}

/// Faults in random order. None is repeated before each has occurred.
struct Deck {
    faults: &'static [Fault],
    left: Vec<Fault>,
}

impl Deck {
    const fn new(faults: &'static [Fault]) -> Self {
        Self { faults, left: Vec::new() }
    }

    fn draw(&mut self, rng: &mut fastrand::Rng) -> Option<Fault> {
        if self.left.is_empty() {
            self.left = self.faults.to_vec();
            rng.shuffle(&mut self.left);
        }
        self.left.pop()
    }
}

async fn wait(rng: &mut fastrand::Rng, millis: std::ops::Range<u64>, until: Until) {
    let pause = Duration::from_millis(rng.u64(millis));
    sleep(match until {
        Until::EachOccurred => pause,
        Until::Time(time) => pause.min(time.saturating_duration_since(Instant::now())),
    })
    .await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

    use super::*;

    #[test]
    fn each_fault_is_drawn_once_per_round() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut deck = Deck::new(Fault::OF_MEMBERS);
        for _ in 0..3 {
            let mut round: Vec<Fault> =
                Fault::OF_MEMBERS.iter().map(|_| deck.draw(&mut rng).unwrap()).collect();
            round.sort_unstable();
            assert_eq!(round, Fault::OF_MEMBERS);
        }
    }

    #[test]
    fn faults_end_after_each_has_occurred() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::create(&folder.path().join("faults.log")).unwrap();
        let all: Vec<Fault> = [Fault::OF_MEMBERS, Fault::OF_WORKERS].concat();
        assert_eq!(all.len(), 16);
        for fault in all {
            assert!(!Until::EachOccurred.is_over(&record), "{fault:?} has not occurred");
            record.count(fault);
        }
        assert!(Until::EachOccurred.is_over(&record));
        assert!(record.missing().is_empty());
    }
}
