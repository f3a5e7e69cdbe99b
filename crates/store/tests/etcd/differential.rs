//! The store in memory, which simulations use, answers like a real etcd. Both get the same random
//! sequences of calls, and each answer is compared. Revisions are compared by the commits that they
//! name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use shardwright_store::etcd::EtcdStore;
use shardwright_store::memory::MemoryStore;
use shardwright_store::testing::EtcdCluster;
use shardwright_store::{
    ChangeSet, Commit, CommitError, Continuation, Expect, Key, ManualClock, Revision, ScanError,
    ScanFrom, SessionError, SessionId, Store, StoreRange, Versioned, WatchError,
};

fn block_on<F: Future>(scenario: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(scenario)
}

/// Sequences in the test command; `cargo xtask prove` sets [`SEQUENCES_VARIABLE`] to more.
const SEQUENCES: u64 = 2_000;
const SEQUENCES_VARIABLE: &str = "SHARDWRIGHT_SEQUENCES";
/// Sequences in which a session expires. They all wait at the same time.
const EXPIRING: u64 = 64;
const CALLS: u64 = 24;
/// A revision that no commit of a sequence has.
const NEVER: Revision = Revision::new(1 << 40);
/// The name of a revision that no commit made.
const UNNAMED: u64 = u64::MAX;
const AT_ONCE: u64 = 64;
const KEYS: u64 = 6;
/// Long enough that no session expires.
const TTL: Duration = Duration::from_secs(600);
/// The TTL of a session that expires, long enough for the few calls before.
const SHORT_TTL: Duration = Duration::from_secs(5);
/// When that session is opened, and when its end is awaited.
const SHORT_OPENED: u64 = 12;
const SHORT_OVER: u64 = 18;

/// A store and the names of its revisions and sessions in the common history.
struct Side<S> {
    store: S,
    prefix: String,
    revisions: BTreeMap<Revision, u64>,
    sessions: Vec<SessionId>,
    ended: BTreeSet<usize>,
    /// The session that expires, and a key of it outside the sequence.
    short: Option<(usize, Key)>,
    next: Option<Continuation>,
}

/// A value, in a form that is the same for both stores.
type Seen = Option<(Vec<u8>, u64, Option<usize>)>;

/// An answer, in the same form.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Committed,
    Conflict(Vec<(Key, Seen)>),
    SessionGone,
    Loaded(Vec<Seen>),
    Page(Vec<(Key, Seen)>, bool),
    Opened,
    Kept,
    Ended,
    Gone,
}

/// One call, in the same form.
#[derive(Clone, Debug)]
enum Call {
    Commit {
        expects: Vec<(u64, Option<u64>)>,
        writes: Vec<(u64, Option<Put>)>,
    },
    Load(Vec<u64>),
    Scan {
        limit: usize,
        goes_on: bool,
    },
    Open,
    Keep(usize),
    Close(usize),
    /// Opens a session that expires soon.
    OpenShort,
    /// Waits until it has expired.
    Expire,
}

#[derive(Clone, Debug)]
struct Put {
    value: Vec<u8>,
    session: Option<usize>,
}

impl<S: Store> Side<S> {
    fn new(store: S, prefix: &str) -> Self {
        Self {
            store,
            prefix: prefix.to_owned(),
            revisions: BTreeMap::new(),
            sessions: Vec::new(),
            ended: BTreeSet::new(),
            short: None,
            next: None,
        }
    }

    fn key(&self, number: u64) -> Key {
        Key::from(format!("{}{number}", self.prefix))
    }

    fn range(&self) -> StoreRange {
        StoreRange::prefix(self.prefix.clone())
    }

    fn session(&self, found: SessionId) -> Option<usize> {
        self.sessions.iter().position(|session| *session == found)
    }

    fn seen(&self, found: Option<&Versioned>) -> Seen {
        let found = found?;
        // Each sequence has its own keys, so nothing older exists.
        let revision = self.revisions.get(&found.revision).copied().unwrap_or(UNNAMED);
        let session = found.session.map(|session| self.session(session).unwrap_or(usize::MAX));
        Some((found.value.to_vec(), revision, session))
    }

    fn commit(&self, expects: &[(u64, Option<u64>)], writes: &[(u64, Option<Put>)]) -> Commit {
        let mut commit = Commit::builder().guard(self.key(KEYS), Expect::Absent);
        for (key, at) in expects {
            let known = |at: &u64| self.revisions.iter().find(|(_, name)| *name == at);
            let expect = match at {
                Some(at) => Expect::At(known(at).map_or(NEVER, |(at, _)| *at)),
                None => Expect::Absent,
            };
            commit = commit.expect(self.key(*key), expect);
        }
        for (key, put) in writes {
            commit = match put {
                Some(Put { value, session: Some(session) }) => {
                    let session = self.sessions[*session];
                    commit.put_in_session(self.key(*key), value.clone(), session)
                }
                Some(Put { value, session: None }) => commit.put(self.key(*key), value.clone()),
                None => commit.delete(self.key(*key)),
            };
        }
        commit.build().unwrap()
    }

    /// Makes a call. `name` is the name of its revision, if it gets one.
    async fn answer(&mut self, call: &Call, name: u64) -> Answer {
        match call {
            Call::Commit { expects, writes } => {
                match self.store.commit(self.commit(expects, writes)).await {
                    Ok(revision) => {
                        // A commit that changes nothing may get a revision that already has a name.
                        self.revisions.entry(revision).or_insert(name);
                        Answer::Committed
                    }
                    Err(CommitError::Conflict(conflict)) => {
                        let found = conflict.found.iter();
                        let found =
                            found.map(|(key, found)| (key.clone(), self.seen(found.as_ref())));
                        Answer::Conflict(found.collect())
                    }
                    Err(CommitError::SessionGone(session)) => {
                        // Of several ended sessions, a store may name any.
                        let named = self.session(session).unwrap();
                        let is_used = |put: &Put| put.session == Some(named);
                        assert!(writes.iter().filter_map(|(_, put)| put.as_ref()).any(is_used));
                        assert!(self.ended.contains(&named), "session {named} has not ended");
                        Answer::SessionGone
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Call::Load(keys) => {
                let keys: Vec<Key> = keys.iter().map(|key| self.key(*key)).collect();
                let loaded = self.store.load(&keys).await.unwrap();
                Answer::Loaded(loaded.values.iter().map(|it| self.seen(it.as_ref())).collect())
            }
            Call::Scan { limit, goes_on } => {
                let after = self.next.take().filter(|_| *goes_on);
                let page = ScanFrom { limit: *limit, after };
                let page = self.store.scan(&self.range(), page).await.unwrap();
                let entries = page.entries.iter();
                let entries = entries.map(|(key, it)| (key.clone(), self.seen(Some(it)))).collect();
                self.next = page.next;
                Answer::Page(entries, self.next.is_some())
            }
            Call::Open => {
                self.sessions.push(self.store.open_session(TTL).await.unwrap().id);
                Answer::Opened
            }
            Call::Keep(session) => {
                answered(self.store.keep_alive(self.sessions[*session]).await, Answer::Kept)
            }
            Call::Close(session) => {
                self.ended.insert(*session);
                let closed = self.store.close_session(self.sessions[*session]).await;
                // A later commit that changes nothing may get the revision of this end.
                let here = self.store.load(&[self.key(0)]).await.unwrap().revision;
                self.revisions.entry(here).or_insert(UNNAMED);
                answered(closed, Answer::Ended)
            }
            Call::OpenShort => self.open_short().await,
            Call::Expire => self.expire().await,
        }
    }

    async fn open_short(&mut self) -> Answer {
        let session = self.store.open_session(SHORT_TTL).await.unwrap().id;
        let mark = Key::from(format!("mark/{}", self.prefix));
        let commit = Commit::builder().expect(mark.clone(), Expect::Absent);
        let commit = commit.put_in_session(mark.clone(), "", session).build().unwrap();
        let here = self.store.commit(commit).await.unwrap();
        self.revisions.entry(here).or_insert(UNNAMED);
        self.short = Some((self.sessions.len(), mark));
        self.sessions.push(session);
        Answer::Opened
    }

    async fn expire(&mut self) -> Answer {
        let (session, mark) = self.short.take().unwrap();
        let deadline = Instant::now() + 10 * SHORT_TTL;
        loop {
            let found = self.store.load(std::slice::from_ref(&mark)).await.unwrap();
            if found.values[0].is_none() {
                self.revisions.entry(found.revision).or_insert(UNNAMED);
                break;
            }
            assert!(Instant::now() < deadline, "session {session} never ends");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.ended.insert(session);
        Answer::Ended
    }

    /// A change set of a watch, in the same form. The ends of sessions have no name.
    fn delivered(&self, set: &ChangeSet) -> (Option<u64>, BTreeMap<Key, Seen>) {
        let changes = set.changes.iter();
        let changes = changes.map(|it| (it.key.clone(), self.seen(it.now.as_ref()))).collect();
        let name = self.revisions.get(&set.revision).filter(|name| **name != UNNAMED);
        (name.copied(), changes)
    }
}

fn answered(result: Result<(), SessionError>, good: Answer) -> Answer {
    match result {
        Ok(()) => good,
        Err(SessionError::Gone(_)) => Answer::Gone,
        Err(error) => panic!("{error}"),
    }
}

fn draw(rng: &mut Chance, sessions: usize, names: u64) -> Call {
    match rng.below(20) {
        0..12 => {
            let mut expects = BTreeMap::new();
            for _ in 0..rng.below(3) {
                let at = (names > 0 && rng.below(3) > 0).then(|| rng.below(names));
                expects.insert(rng.below(KEYS), at);
            }
            let mut writes = BTreeMap::new();
            for _ in 0..=rng.below(3) {
                let in_session = sessions > 0 && rng.below(3) == 0;
                let session = in_session.then(|| rng.below(sessions as u64) as usize);
                let value = vec![rng.below(256) as u8; rng.below(4) as usize];
                let put = (rng.below(4) > 0).then_some(Put { value, session });
                writes.insert(rng.below(KEYS), put);
            }
            let (expects, writes) = (expects.into_iter().collect(), writes.into_iter().collect());
            Call::Commit { expects, writes }
        }
        12..15 => Call::Load((0..=rng.below(KEYS)).map(|_| rng.below(KEYS)).collect()),
        15..17 => Call::Scan { limit: 1 + rng.below(4) as usize, goes_on: rng.below(3) > 0 },
        17 => Call::Open,
        _ if sessions == 0 => Call::Open,
        18 => Call::Keep(rng.below(sessions as u64) as usize),
        _ => Call::Close(rng.below(sessions as u64) as usize),
    }
}

/// SplitMix64, so that a failing sequence can be replayed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn in_memory() -> MemoryStore {
    MemoryStore::new(Arc::new(ManualClock::new()))
}

async fn compare(seed: u64, etcd: EtcdStore, expiring: bool) {
    let prefix = format!("sequence{seed:05}/");
    let clock = Arc::new(ManualClock::new());
    let store = MemoryStore::new(Arc::<ManualClock>::clone(&clock));
    let mut memory = Side::new(store, &prefix);
    let mut etcd = Side::new(etcd, &prefix);
    let (range, mut rng) = (memory.range(), Chance(seed));
    let beginning = etcd.store.load(&[etcd.key(0)]).await.unwrap().revision;
    let mut watched = etcd.store.watch(&range, beginning).await.unwrap();
    let mut expected = memory.store.watch(&range, Revision::ZERO).await.unwrap();
    let mut calls = Vec::new();
    for name in 0..CALLS {
        let call = match name {
            SHORT_OPENED if expiring => Call::OpenShort,
            SHORT_OVER if expiring => Call::Expire,
            _ => draw(&mut rng, memory.sessions.len(), name),
        };
        if matches!(call, Call::Expire) {
            clock.advance(SHORT_TTL);
        }
        calls.push(call.clone());
        let (one, other) = (memory.answer(&call, name).await, etcd.answer(&call, name).await);
        assert_eq!(one, other, "sequence {seed} after {calls:#?}");
    }
    // The last write marks the end of a watch.
    let put = Put { value: b"end".to_vec(), session: None };
    let end = Call::Commit { expects: Vec::new(), writes: vec![(0, Some(put))] };
    assert_eq!(memory.answer(&end, CALLS).await, etcd.answer(&end, CALLS).await);
    loop {
        let one = memory.delivered(&expected.next().await.unwrap());
        // A commit that deletes a missing key changes nothing, and etcd does not report it.
        let other = etcd.delivered(&watched.next().await.unwrap());
        assert_eq!(one, other, "watch of sequence {seed} after {calls:#?}");
        if one.0 == Some(CALLS) {
            break;
        }
    }
    for session in 0..etcd.sessions.len() {
        let _ended = etcd.answer(&Call::Close(session), 0).await;
    }
}

fn compare_all(sequences: u64, expiring: bool) {
    block_on(async {
        let cluster = EtcdCluster::single().await.unwrap();
        let store = EtcdStore::connect(cluster.options()).await.unwrap();
        let tasks: Vec<_> = (0..AT_ONCE)
            .map(|first| {
                let store = store.clone();
                tokio::spawn(async move {
                    for seed in (first..sequences).step_by(AT_ONCE as usize) {
                        compare(seed, store.clone(), expiring).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn random_sequences_agree_in_memory_and_on_etcd() {
    let sequences = std::env::var(SEQUENCES_VARIABLE);
    compare_all(sequences.map_or(SEQUENCES, |number| number.parse().unwrap()), false);
}

#[test]
fn expired_sessions_end_alike_in_memory_and_on_etcd() {
    compare_all(EXPIRING, true);
}

/// A scan that continues, and a watch that starts, before a compacted revision.
async fn behind<S: Store>(side: &mut Side<S>, compact: impl AsyncFn(Revision)) -> (bool, bool) {
    let put = |key| {
        let put = Put { value: vec![key as u8], session: None };
        Call::Commit { expects: Vec::new(), writes: vec![(key, Some(put))] }
    };
    for key in 0..4 {
        side.answer(&put(key), key).await;
    }
    let first = side.store.scan(&side.range(), ScanFrom::first(2)).await.unwrap();
    for key in 0..4 {
        side.answer(&put(key), 4 + key).await;
    }
    let now = side.store.load(&[side.key(0)]).await.unwrap().revision;
    compact(now).await;
    let next = ScanFrom { limit: 2, after: first.next };
    let moved = side.store.scan(&side.range(), next).await;
    let gap = match side.store.watch(&side.range(), first.revision).await {
        Ok(mut changes) => changes.next().await.map(|_| ()),
        Err(error) => Err(error),
    };
    (matches!(moved, Err(ScanError::Moved)), matches!(gap, Err(WatchError::Gap)))
}

#[test]
fn compaction_has_the_same_effect_in_memory_and_on_etcd() {
    block_on(async {
        let cluster = EtcdCluster::single().await.unwrap();
        let store = EtcdStore::connect(cluster.options()).await.unwrap();
        let operator = cluster.operator(0).await.unwrap();
        for round in 0..20 {
            let prefix = format!("round{round}/");
            let mut memory = Side::new(in_memory(), &prefix);
            let client = memory.store.clone();
            let one = behind(&mut memory, async |before| client.compact(before)).await;
            let mut etcd = Side::new(store.clone(), &prefix);
            let other = behind(&mut etcd, async |before| operator.compact(before).await.unwrap());
            assert_eq!((one, other.await), ((true, true), (true, true)));
        }
    });
}
