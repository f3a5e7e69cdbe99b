//! What every store must do, as scenarios that any store can run.
//!
//! A store under test implements [`Harness`] and calls the macro
//! [`store_conformance_suite!`](crate::store_conformance_suite), which makes one test of each
//! scenario. Scenarios use the trait [`Store`] only, and keep to keys of their own, so they can
//! share one store. A scenario that fails panics with what it saw.
//!
//! The suite says what is the same everywhere. What a store adds (faults, recovery, damage) it
//! tests by itself.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a scenario that fails panics, which is how a test reports"
)]

pub mod commits;
pub mod races;
pub mod scans;
pub mod sessions;
pub mod watches;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::{
    ChangeSet, Changes, Commit, CommitBuilder, CommitError, Expect, Key, Revision, SessionId,
    Store, StoreRange, Versioned, WatchError,
};

/// Something that runs beside others.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A store under test.
pub trait Harness: Sync {
    /// How it is spoken to.
    type Store: Store;

    /// A client; each call gives one of its own, as another process would have it.
    fn client(&self) -> impl Future<Output = Self::Store> + Send;

    /// What all keys of the scenario begin with, and no others.
    fn prefix(&self) -> Vec<u8>;

    /// How long the sessions of the scenario last.
    fn ttl(&self) -> Duration;

    /// Lets time pass for sessions.
    fn pass(&self, time: Duration) -> impl Future<Output = ()> + Send;

    /// Has the store forget what was before a moment. Tells whether it can.
    fn compact(&self, before: Revision) -> impl Future<Output = bool> + Send;

    /// How many change sets a reader of a watch may be behind; at least 256.
    fn watch_capacity(&self) -> usize;

    /// Waits a little, between two looks at the same thing.
    fn pause(&self) -> impl Future<Output = ()> + Send;

    /// Runs all to their ends, at the same time.
    fn run_together(&self, tasks: Vec<Task>) -> impl Future<Output = ()> + Send;
}

/// How long a scenario waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// One client and the keys of a scenario, with shorthand for what scenarios do all the time.
pub struct Space<'h, H: Harness> {
    harness: &'h H,
    store: Arc<H::Store>,
    prefix: Vec<u8>,
}

impl<'h, H: Harness> Space<'h, H> {
    /// A space of its own.
    pub async fn new(harness: &'h H) -> Self {
        Self { harness, store: Arc::new(harness.client().await), prefix: harness.prefix() }
    }

    /// The same keys through another client.
    async fn other_client(&self) -> Self {
        let store = Arc::new(self.harness.client().await);
        Self { harness: self.harness, store, prefix: self.prefix.clone() }
    }

    fn key(&self, name: impl AsRef<[u8]>) -> Key {
        Key::from([self.prefix.as_slice(), name.as_ref()].concat())
    }

    fn range(&self) -> StoreRange {
        StoreRange::prefix(self.prefix.clone())
    }

    fn range_of(&self, prefix: impl AsRef<[u8]>) -> StoreRange {
        StoreRange::prefix(self.key(prefix).to_bytes())
    }

    async fn get(&self, name: impl AsRef<[u8]>) -> Option<Versioned> {
        let mut snapshot = self.store.load(&[self.key(name)]).await.unwrap();
        snapshot.values.pop().unwrap()
    }

    async fn text(&self, name: impl AsRef<[u8]>) -> Option<String> {
        let found = self.get(name).await?;
        Some(String::from_utf8(found.value.to_vec()).unwrap())
    }

    /// What to expect of a key so that it can be written.
    async fn expect_now(&self, name: impl AsRef<[u8]>) -> Expect {
        self.get(name).await.map_or(Expect::Absent, |found| Expect::At(found.revision))
    }

    async fn put(&self, name: impl AsRef<[u8]>, value: impl Into<Bytes>) -> Revision {
        let (key, now) = (self.key(&name), self.expect_now(&name).await);
        self.commit(Commit::builder().expect(key.clone(), now).put(key, value)).await.unwrap()
    }

    async fn put_in(&self, name: &str, value: &'static str, session: SessionId) -> Revision {
        let (key, now) = (self.key(name), self.expect_now(name).await);
        let commit = Commit::builder().expect(key.clone(), now);
        self.commit(commit.put_in_session(key, value, session)).await.unwrap()
    }

    async fn delete(&self, name: &str) -> Revision {
        let (key, now) = (self.key(name), self.expect_now(name).await);
        self.commit(Commit::builder().expect(key.clone(), now).delete(key)).await.unwrap()
    }

    async fn commit(&self, commit: CommitBuilder) -> Result<Revision, CommitError> {
        self.store.commit(commit.build().unwrap()).await
    }

    async fn now(&self) -> Revision {
        self.store.load(&[]).await.unwrap().revision
    }

    async fn watch(&self, range: &StoreRange, after: Revision) -> Watcher<'h, H> {
        let changes = self.store.watch(range, after).await.unwrap();
        Watcher { harness: self.harness, changes, prefix: self.prefix.len() }
    }

    /// Waits until a key is gone.
    async fn until_gone(&self, name: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.get(name).await.is_some() {
            assert!(Instant::now() < deadline, "{name} is still there");
            self.harness.pause().await;
        }
    }
}

/// Reads a watch, but not for ever.
struct Watcher<'h, H> {
    harness: &'h H,
    changes: Changes,
    prefix: usize,
}

impl<H: Harness> Watcher<'_, H> {
    async fn next(&mut self) -> Result<ChangeSet, WatchError> {
        let deadline = Instant::now() + PATIENCE;
        let mut next = pin!(self.changes.next());
        loop {
            let mut pause = pin!(self.harness.pause());
            let woken = poll_fn(|context| {
                if let Poll::Ready(received) = next.as_mut().poll(context) {
                    return Poll::Ready(Some(received));
                }
                pause.as_mut().poll(context).map(|()| None)
            });
            if let Some(received) = woken.await {
                return received;
            }
            assert!(Instant::now() < deadline, "the watch is silent");
        }
    }

    /// The next changes, as names without the scenario's prefix and the values as text.
    async fn names(&mut self) -> (Revision, Vec<(String, Option<String>)>) {
        let set = self.next().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let change = |change: &crate::Change| {
            let name = text(&change.key.as_bytes()[self.prefix..]);
            (name, change.now.as_ref().map(|now| text(&now.value)))
        };
        let mut changes: Vec<_> = set.changes.iter().map(change).collect();
        changes.sort();
        (set.revision, changes)
    }
}

fn put(name: &str, value: &str) -> (String, Option<String>) {
    (name.to_owned(), Some(value.to_owned()))
}

fn gone(name: &str) -> (String, Option<String>) {
    (name.to_owned(), None)
}

/// Makes one test of each scenario.
///
/// `$harness` makes a harness, and `$block_on` runs a future to its end.
#[macro_export]
macro_rules! store_conformance_suite {
    ($harness:expr, $block_on:expr) => {
        $crate::store_conformance_suite! { @tests $harness, $block_on,
            commits::{
                what_was_put_is_loaded_in_the_order_asked_for,
                absent_means_that_nothing_is_there,
                a_revision_means_that_nothing_has_changed,
                all_writes_happen_or_none,
                a_conflict_shows_what_is_there_in_the_order_expected,
                revisions_rise_and_belong_to_what_they_wrote,
                what_is_not_there_can_be_deleted,
                values_may_be_empty_and_keys_may_be_any_bytes,
                a_commit_at_the_limits_passes_and_one_beyond_does_not,
                two_clients_see_each_other,
            }
            scans::{
                keys_are_ordered_as_bytes,
                a_range_has_its_start_and_not_its_end,
                a_prefix_of_highest_bytes_reaches_its_end,
                pages_make_up_the_range,
                pages_are_of_one_moment_or_the_scan_has_moved,
                a_moment_that_is_forgotten_cannot_be_scanned,
            }
            watches::{
                changes_come_in_order_and_once,
                changes_of_one_commit_come_together,
                a_watch_begins_after_its_revision,
                changes_before_a_watch_are_caught_up_with,
                a_deletion_is_seen_and_one_of_nothing_is_not,
                only_the_range_is_watched,
                several_watches_see_the_same,
                a_watch_sees_what_others_commit,
                a_reader_that_is_too_slow_has_a_gap,
                what_is_forgotten_cannot_be_watched,
                a_watch_under_fire_misses_nothing,
            }
            sessions::{
                what_is_put_in_a_session_goes_with_it,
                a_session_that_is_kept_alive_stays,
                a_closed_session_is_gone_at_once,
                nothing_can_be_put_in_a_session_that_has_ended,
                a_dead_session_harms_nobody_else_in_the_batch,
                a_key_put_again_without_a_session_stays,
                a_key_goes_with_the_session_that_put_it_last,
                a_key_that_was_deleted_does_not_go_twice,
                a_session_is_shared_by_all_clients,
            }
            races::{
                counters_lose_nothing,
                counters_lose_nothing_between_clients,
                two_that_exclude_each_other_never_both_pass,
                two_that_exclude_each_other_never_both_pass_between_clients,
                a_load_is_one_moment,
                a_conflict_touches_nobody_else,
                a_caller_that_goes_away_stops_nobody,
            }
        }
    };
    (@tests $harness:expr, $block_on:expr, $($group:ident::{$($scenario:ident,)+})+) => {$(
        mod $group {
            use super::*;
            $(
                #[test]
                fn $scenario() {
                    let harness = $harness;
                    let scenario = $crate::conformance::$group::$scenario(&harness);
                    $block_on(scenario);
                }
            )+
        }
    )+};
}
