//! The behaviour that every store must have, as scenarios.
//!
//! A store under test implements [`Harness`] and calls the macro
//! [`store_conformance_suite!`](crate::store_conformance_suite), which makes one test per scenario.
//! A scenario uses only the trait [`Store`] and keys of its own, so scenarios can share one store.
//! A scenario that fails panics.
//!
//! The suite covers what all stores share. Each store tests its own faults, recovery and damage.
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

/// A task that runs beside others.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A store under test.
pub trait Harness: Sync {
    /// The type of its clients.
    type Store: Store;

    /// A new client, as another process would have.
    fn client(&self) -> impl Future<Output = Self::Store> + Send;

    /// The prefix of all keys of the scenario, and of no other keys.
    fn prefix(&self) -> Vec<u8>;

    /// The TTL of the scenario's sessions.
    fn ttl(&self) -> Duration;

    /// Advances the clock of sessions.
    fn pass(&self, time: Duration) -> impl Future<Output = ()> + Send;

    /// Compacts the history before a revision. Returns false if the store cannot.
    fn compact(&self, before: Revision) -> impl Future<Output = bool> + Send;

    /// How many change sets a reader of a watch may lag: at least 256.
    fn watch_capacity(&self) -> usize;

    /// Waits briefly between two polls.
    fn pause(&self) -> impl Future<Output = ()> + Send;

    /// Runs all tasks concurrently until all are done.
    fn run_together(&self, tasks: Vec<Task>) -> impl Future<Output = ()> + Send;
}

/// How long a scenario waits for an expected event.
const TIMEOUT: Duration = Duration::from_secs(30);

/// One client and the keys of a scenario, with shorthands.
pub struct Space<'h, H: Harness> {
    harness: &'h H,
    store: Arc<H::Store>,
    prefix: Vec<u8>,
}

impl<'h, H: Harness> Space<'h, H> {
    /// A space with a new client.
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

    /// The expectation with which the key can be written now.
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
        let deadline = Instant::now() + TIMEOUT;
        while self.get(name).await.is_some() {
            assert!(Instant::now() < deadline, "{name} still exists");
            self.harness.pause().await;
        }
    }
}

/// Reads a watch with a timeout.
struct Watcher<'h, H> {
    harness: &'h H,
    changes: Changes,
    prefix: usize,
}

impl<H: Harness> Watcher<'_, H> {
    async fn next(&mut self) -> Result<ChangeSet, WatchError> {
        let deadline = Instant::now() + TIMEOUT;
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

    /// The next changes, as names without the prefix and values as text.
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

/// Makes one test per scenario.
///
/// `$harness` creates a harness, and `$block_on` runs a future to its end.
#[macro_export]
macro_rules! store_conformance_suite {
    ($harness:expr, $block_on:expr) => {
        $crate::store_conformance_suite! { @tests $harness, $block_on,
            commits::{
                load_returns_values_in_the_order_of_its_keys,
                expected_absence_requires_that_the_key_does_not_exist,
                expected_revision_requires_the_last_write,
                writes_are_all_or_nothing,
                conflict_returns_values_in_the_order_of_expectations,
                revisions_rise_and_match_the_written_keys,
                a_missing_key_can_be_deleted,
                values_may_be_empty_and_keys_any_bytes,
                commit_limits_are_inclusive,
                two_clients_see_each_other,
            }
            scans::{
                keys_are_ordered_as_bytes,
                a_range_has_its_start_and_not_its_end,
                a_prefix_of_highest_bytes_reaches_its_end,
                pages_cover_the_range,
                pages_are_of_one_revision_or_the_scan_has_moved,
                compacted_revision_cannot_be_scanned,
            }
            watches::{
                changes_arrive_once_and_in_order,
                changes_of_one_commit_arrive_together,
                watch_starts_after_its_revision,
                watch_delivers_earlier_changes_first,
                only_deletions_of_existing_keys_are_changes,
                watch_delivers_only_its_range,
                watches_are_independent,
                watch_delivers_commits_of_other_clients,
                slow_reader_gets_a_gap,
                compacted_changes_cannot_be_watched,
                watch_misses_nothing_under_load,
            }
            sessions::{
                session_end_deletes_its_keys,
                keep_alive_extends_a_session,
                closed_session_ends_at_once,
                ended_session_accepts_no_keys,
                ended_session_fails_only_its_own_commit,
                key_put_without_a_session_leaves_its_session,
                key_belongs_to_the_session_that_wrote_it_last,
                deleted_key_is_not_deleted_again_by_its_session,
                session_is_shared_by_all_clients,
            }
            races::{
                counters_lose_no_increment,
                counters_lose_no_increment_between_clients,
                exclusive_commits_never_both_pass,
                exclusive_commits_never_both_pass_between_clients,
                load_reads_one_revision,
                conflict_does_not_affect_other_commits,
                dropped_caller_does_not_block_others,
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
