//! What goes wrong again and again, told to whoever looks after a process.
//!
//! A node tries on when its store is out of reach, for that may pass. But it may not, and then
//! somebody has to know why.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shardwright_contracts::Env;
use shardwright_engine::watch;

/// How often the same kind of trouble is told of, at most.
const EVERY: Duration = Duration::from_secs(10);
/// How many notices are kept for those who are late to look.
const KEPT: usize = 16;

/// What does not work. Most of it is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trying {
    /// To be a member again.
    Join,
    /// To tell the others that the node wants to leave.
    Leave,
    /// To lead.
    Lead,
    /// To claim shards.
    Claim,
    /// To release shards.
    Release,
    /// To keep a shard that was to be released.
    Keep,
    /// To load the objects of which there is one in every shard.
    Load,
    /// To take leave of the objects of a shard that goes.
    TakeLeave,
}

impl Trying {
    /// For people: what is being tried.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Leave => "leave",
            Self::Lead => "lead",
            Self::Claim => "claim",
            Self::Release => "release",
            Self::Keep => "keep",
            Self::Load => "load",
            Self::TakeLeave => "take leave",
        }
    }
}

/// Something that did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The how manieth it is of this process, from one.
    pub number: u64,
    /// What was tried.
    pub trying: Trying,
    /// Why it did not work, the last time.
    pub why: String,
    /// How often it did not, since this was told of last.
    pub times: u64,
}

/// The latest notices of a process.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    latest: VecDeque<Notice>,
}

impl Notices {
    /// Those after the one with a number, as far as they are still known.
    pub fn after(&self, number: u64) -> impl Iterator<Item = &Notice> {
        self.latest.iter().filter(move |notice| notice.number > number)
    }
}

/// Whoever tells.
pub(crate) struct Teller {
    env: Arc<dyn Env>,
    told: watch::Sender<Notices>,
    /// When each kind was told of last, and how often it has happened since.
    quiet: Mutex<BTreeMap<Trying, (Duration, u64)>>,
}

impl Teller {
    pub(crate) fn new(env: Arc<dyn Env>) -> Self {
        Self { env, told: watch::Sender::new(Notices::default()), quiet: Mutex::default() }
    }

    pub(crate) fn notices(&self) -> watch::Receiver<Notices> {
        self.told.subscribe()
    }

    /// Tells that something did not work, unless that was told of a moment ago.
    pub(crate) fn tell(&self, trying: Trying, why: impl fmt::Display) {
        let Some(times) = self.times_to_tell(trying) else { return };
        let why = shardwright_api::short(why.to_string());
        self.told.send_modify(|notices| {
            let number = notices.latest.back().map_or(0, |last| last.number).saturating_add(1);
            notices.latest.push_back(Notice { number, trying, why, times });
            if notices.latest.len() > KEPT {
                notices.latest.pop_front();
            }
        });
    }

    fn times_to_tell(&self, trying: Trying) -> Option<u64> {
        let now = self.env.monotonic();
        let mut quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        match quiet.get_mut(&trying) {
            Some((at, times)) if now.saturating_sub(*at) < EVERY => {
                *times = times.saturating_add(1);
                None
            }
            Some((at, times)) => {
                *at = now;
                Some(std::mem::take(times).saturating_add(1))
            }
            None => {
                quiet.insert(trying, (now, 0));
                Some(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::PausedEnv;

    fn told(teller: &Teller, after: u64) -> Vec<(Trying, String, u64)> {
        let notices = teller.notices().borrow().clone();
        notices.after(after).map(|one| (one.trying, one.why.clone(), one.times)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_trouble_is_told_of_now_and_then_and_another_at_once() {
        let teller = Teller::new(Arc::new(PausedEnv::new()));
        for _ in 0..50 {
            teller.tell(Trying::Claim, "no store");
        }
        teller.tell(Trying::Join, "no store either");
        let first = (Trying::Claim, "no store".to_owned(), 1);
        let second = (Trying::Join, "no store either".to_owned(), 1);
        assert_eq!(told(&teller, 0), [first, second]);
        tokio::time::sleep(EVERY).await;
        teller.tell(Trying::Claim, "still none");
        assert_eq!(told(&teller, 2), [(Trying::Claim, "still none".to_owned(), 50)]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_latest_are_kept() {
        let teller = Teller::new(Arc::new(PausedEnv::new()));
        for _ in 0..3 * KEPT {
            teller.tell(Trying::Load, "no");
            tokio::time::sleep(EVERY).await;
        }
        let notices = teller.notices().borrow().clone();
        let numbers: Vec<u64> = notices.after(0).map(|one| one.number).collect();
        assert_eq!(numbers, (33..=48).collect::<Vec<_>>());
    }
}
