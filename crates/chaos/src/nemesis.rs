//! What goes wrong, in an order that a seed decides.
//!
//! There are two of them, one for the members and one for the workers, so that faults of both
//! kinds come together. Each goes through all its faults in random order, again and again.

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

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A member is killed and started again.
    KillMember,
    /// The leader is killed and started again.
    KillLeader,
    /// Two members of three are killed and started again.
    KillMajority,
    /// A member stops in the middle of whatever it does, and goes on.
    PauseMember,
    /// The leader does.
    PauseLeader,
    /// No worker can reach a member.
    IsolateMember,
    /// A member cannot reach the others, nor they it.
    SeverMember,
    /// The leader cannot, and workers go on asking it.
    SeverLeader,
    /// Everything that goes to and from a member is late.
    SlowMember,
    /// The history is forgotten.
    Compact,
    /// A member gives the room of what was deleted back, and does nothing else meanwhile.
    Defragment,
    /// The members have no more space, until they are defragmented.
    FillQuota,
    /// A worker is killed, and another started.
    KillWorker,
    /// A worker stops for longer than its leases last, and goes on.
    PauseWorker,
    /// A worker can reach no member.
    IsolateWorker,
    /// What workers say is heard, and what they are answered is lost.
    LoseAnswers,
}

impl Fault {
    /// What happens to members.
    pub const OF_MEMBERS: &[Self] = &[
        Self::KillMember,
        Self::KillLeader,
        Self::KillMajority,
        Self::PauseMember,
        Self::PauseLeader,
        Self::IsolateMember,
        Self::SeverMember,
        Self::SeverLeader,
        Self::SlowMember,
        Self::Compact,
        Self::Defragment,
        Self::FillQuota,
    ];
    /// What it is called in tables and in what is promised.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KillMember => "member killed",
            Self::KillLeader => "leader killed",
            Self::KillMajority => "majority killed",
            Self::PauseMember => "member paused",
            Self::PauseLeader => "leader paused",
            Self::IsolateMember => "member cut off",
            Self::SeverMember => "member without others",
            Self::SeverLeader => "leader without others",
            Self::SlowMember => "member slow",
            Self::Compact => "history compacted",
            Self::Defragment => "member defragmented",
            Self::FillQuota => "out of room",
            Self::KillWorker => "worker killed",
            Self::PauseWorker => "worker paused",
            Self::IsolateWorker => "worker cut off",
            Self::LoseAnswers => "answers lost",
        }
    }

    /// What happens to workers.
    pub const OF_WORKERS: &[Self] =
        &[Self::KillWorker, Self::PauseWorker, Self::IsolateWorker, Self::LoseAnswers];
}

/// Which faults there were, and when.
#[derive(Debug)]
pub struct Record {
    counts: Mutex<BTreeMap<Fault, u64>>,
    log: File,
}

impl Record {
    /// Begins with none.
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { counts: Mutex::default(), log: File::create(path)? })
    }

    /// Writes down what happens to whom.
    pub fn note(&self, text: &str) -> Result<()> {
        Ok(writeln!(&self.log, "{} {text}", history::now() / 1_000)?)
    }

    fn count(&self, fault: Fault) {
        if let Ok(mut counts) = self.counts.lock() {
            *counts.entry(fault).or_default() += 1;
        }
    }

    /// How often each fault came.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<Fault, u64> {
        self.counts.lock().map(|counts| counts.clone()).unwrap_or_default()
    }

    /// The faults that have not come yet.
    #[must_use]
    pub fn missing(&self) -> Vec<Fault> {
        let counts = self.counts();
        let all = Fault::OF_MEMBERS.iter().chain(Fault::OF_WORKERS);
        all.filter(|fault| !counts.contains_key(fault)).copied().collect()
    }
}

/// When faults stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// As soon as each fault has come once.
    EachCameOnce,
    /// At a time.
    Time(Instant),
}

impl Until {
    fn is_over(self, record: &Record) -> bool {
        match self {
            Self::EachCameOnce => record.missing().is_empty(),
            Self::Time(time) => Instant::now() >= time,
        }
    }
}

/// Faults in random order, none a second time before each has come.
struct Deck {
    faults: &'static [Fault],
    left: Vec<Fault>,
}

impl Deck {
    const fn new(faults: &'static [Fault]) -> Self {
        Self { faults, left: Vec::new() }
    }

    fn draw(&mut self, chance: &mut fastrand::Rng) -> Option<Fault> {
        if self.left.is_empty() {
            self.left = self.faults.to_vec();
            chance.shuffle(&mut self.left);
        }
        self.left.pop()
    }
}

async fn wait(chance: &mut fastrand::Rng, millis: std::ops::Range<u64>, until: Until) {
    let pause = Duration::from_millis(chance.u64(millis));
    sleep(match until {
        Until::EachCameOnce => pause,
        Until::Time(time) => pause.min(time.saturating_duration_since(Instant::now())),
    })
    .await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

    use super::*;

    #[test]
    fn no_fault_comes_a_second_time_before_each_has_come() {
        let mut chance = fastrand::Rng::with_seed(1);
        let mut deck = Deck::new(Fault::OF_MEMBERS);
        for _ in 0..3 {
            let mut round: Vec<Fault> =
                Fault::OF_MEMBERS.iter().map(|_| deck.draw(&mut chance).unwrap()).collect();
            round.sort_unstable();
            assert_eq!(round, Fault::OF_MEMBERS);
        }
    }

    #[test]
    fn a_deck_is_over_with_its_last_fault_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::create(&folder.path().join("faults.log")).unwrap();
        let all: Vec<Fault> = [Fault::OF_MEMBERS, Fault::OF_WORKERS].concat();
        assert_eq!(all.len(), 16);
        for fault in all {
            assert!(!Until::EachCameOnce.is_over(&record), "{fault:?} has not come");
            record.count(fault);
        }
        assert!(Until::EachCameOnce.is_over(&record));
        assert!(record.missing().is_empty());
    }
}
