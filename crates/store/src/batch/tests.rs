//! Callers arrive, wait and are dropped in an order drawn from a seed, on one thread. Other tests
//! use many threads.

mod standstill;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use super::*;
use crate::commit::Expect;
use crate::key::Key;
use crate::store::Revision;

struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 32)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// Whether one commit writes a key that the other expects or writes.
fn clash(one: &Commit, other: &Commit) -> bool {
    let touches = |commit: &Commit, key: &Key| commit.keys().any(|touched| touched == key);
    one.writes().iter().any(|write| touches(other, write.key()))
        || other.writes().iter().any(|write| touches(one, write.key()))
}

/// A commit that carries its number, expects two of a few keys, and writes a third.
fn commit(number: usize, chance: &mut Chance, poison: bool) -> Commit {
    let shared = |chance: &mut Chance| Key::from(format!("shared/{}", chance.below(12)));
    let own = Key::from(format!("own/{number}"));
    let mut builder = Commit::builder().expect(own.clone(), Expect::Absent);
    let (looked_at, written) = (shared(chance), shared(chance));
    builder =
        builder.expect(looked_at, Expect::Absent).put(own, if poison { "poison" } else { "" });
    if chance.one_in(3) {
        builder = builder.put(written, "");
    }
    builder.build().unwrap()
}

fn number(commit: &Commit) -> usize {
    let key = String::from_utf8(commit.expectations()[0].key.as_bytes().to_vec()).unwrap();
    key.strip_prefix("own/").unwrap().parse().unwrap()
}

fn is_poison(commit: &Commit) -> bool {
    matches!(&commit.writes()[0], crate::Write::Put { value, .. } if &value[..] == b"poison")
}

/// Checks every batch that it gets. Applies it at once, or keeps it until the test finishes it.
#[derive(Debug, Default)]
struct Recorder {
    keeps: AtomicBool,
    slots: usize,
    /// Whether it claims to decide elsewhere.
    elsewhere: bool,
    under_way: AtomicUsize,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    kept: Vec<CommitBatch>,
    /// The commits, in the order in which they were first sent.
    sent: Vec<usize>,
    seen: BTreeSet<usize>,
    largest: usize,
}

const MEMBERS_MAX: usize = 7;

impl Recorder {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }

    fn carry_out(&self, batch: CommitBatch) {
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        if batch.commits().any(is_poison) {
            return batch.refuse(CommitError::SessionGone(crate::SessionId::new(1)));
        }
        let results: Vec<_> = batch.commits().map(answer).collect();
        batch.finish(results);
    }
}

fn answer(commit: &Commit) -> Result<Revision, CommitError> {
    Ok(Revision::new(u64::try_from(number(commit)).unwrap()))
}

impl BatchEngine for Recorder {
    fn fits(&self, size: &BatchSize) -> bool {
        size.commits <= MEMBERS_MAX
    }

    fn in_flight(&self) -> usize {
        self.slots
    }

    fn decides_in_start(&self) -> bool {
        !self.elsewhere
    }

    fn start(self: &Arc<Self>, batch: CommitBatch) {
        assert!(self.under_way.fetch_add(1, Ordering::SeqCst) < self.slots, "too many in flight");
        let commits: Vec<_> = batch.commits().collect();
        assert!(!commits.is_empty() && commits.len() <= MEMBERS_MAX);
        for (at, one) in commits.iter().enumerate() {
            for other in &commits[at + 1..] {
                assert!(!clash(one, other), "{} and {} clash", number(one), number(other));
            }
        }
        let mut log = self.log();
        log.largest = log.largest.max(commits.len());
        for commit in commits {
            if log.seen.insert(number(commit)) {
                log.sent.push(number(commit));
            }
        }
        if self.keeps.load(Ordering::SeqCst) {
            log.kept.push(batch);
        } else {
            drop(log);
            self.carry_out(batch);
        }
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Answers = Rc<Cell<Option<Result<Revision, CommitError>>>>;

struct Caller {
    number: usize,
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
    answer: Answers,
    polled: bool,
}

/// Callers on one thread, polled when they are woken, in an order drawn from the seed.
struct World {
    batcher: Batcher<Recorder>,
    callers: Vec<Caller>,
    answers: BTreeMap<usize, Result<Revision, CommitError>>,
    poisoned: BTreeSet<usize>,
    lost: bool,
    gone: usize,
    chance: Chance,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let (slots, elsewhere) = (1 + chance.below(3), chance.one_in(2));
        let recorder = Recorder { slots, elsewhere, ..Recorder::default() };
        Self {
            batcher: Batcher::new(Arc::new(recorder)),
            callers: Vec::new(),
            answers: BTreeMap::new(),
            poisoned: BTreeSet::new(),
            lost: false,
            gone: 0,
            chance,
        }
    }

    fn arrive(&mut self, number: usize) {
        let poison = self.chance.one_in(15);
        if poison {
            self.poisoned.insert(number);
        }
        let commit = commit(number, &mut self.chance, poison);
        let batcher = self.batcher.clone();
        let answer = Answers::default();
        let kept = Rc::clone(&answer);
        let future = Box::pin(async move { kept.set(Some(batcher.commit(commit).await)) });
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        self.callers.push(Caller { number, future, woken, answer, polled: false });
    }

    fn poll(&mut self) {
        let ready: Vec<usize> = (0..self.callers.len())
            .filter(|at| self.callers[*at].woken.0.load(Ordering::SeqCst))
            .collect();
        if ready.is_empty() {
            return;
        }
        let at = ready[self.chance.below(ready.len())];
        let caller = &mut self.callers[at];
        caller.polled = true;
        caller.woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&caller.woken));
        if caller.future.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(()) {
            let caller = self.callers.swap_remove(at);
            self.answers.insert(caller.number, caller.answer.take().unwrap());
        }
    }

    fn finish_one(&mut self) {
        let recorder = Arc::clone(self.batcher.engine());
        let mut log = recorder.log();
        if log.kept.is_empty() {
            return;
        }
        let at = self.chance.below(log.kept.len());
        let batch = log.kept.swap_remove(at);
        drop(log);
        if self.chance.one_in(12) {
            // The engine dropped the batch.
            recorder.under_way.fetch_sub(1, Ordering::SeqCst);
            self.lost = true;
            drop(batch);
        } else {
            recorder.carry_out(batch);
        }
    }

    fn step(&mut self) {
        match self.chance.below(10) {
            0 => {
                let keeps = self.chance.one_in(2);
                self.batcher.engine().keeps.store(keeps, Ordering::SeqCst);
            }
            1 | 2 => self.finish_one(),
            3 if !self.callers.is_empty() && self.chance.one_in(2) => {
                let at = self.chance.below(self.callers.len());
                drop(self.callers.swap_remove(at));
                self.gone += 1;
            }
            _ => self.poll(),
        }
    }

    /// Runs until no caller is awake and nothing is in flight.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            let quiet = self.callers.iter().all(|one| !one.woken.0.load(Ordering::SeqCst));
            if quiet && self.batcher.engine().log().kept.is_empty() {
                return;
            }
            self.poll();
            self.finish_one();
        }
        panic!("the world never came to rest");
    }
}

fn live_through(seed: u64) -> (usize, usize) {
    let mut world = World::new(seed);
    let total = 20 + world.chance.below(40);
    for number in 0..total {
        world.arrive(number);
        for _ in 0..world.chance.below(4) {
            world.step();
        }
    }
    for _ in 0..100 {
        world.step();
    }
    world.settle();
    assert!(world.callers.is_empty(), "seed {seed}: a caller waits for ever");
    assert_eq!(world.answers.len() + world.gone, total, "seed {seed}");
    for (number, answer) in &world.answers {
        match answer {
            Ok(revision) => {
                assert_eq!(revision.get(), u64::try_from(*number).unwrap(), "seed {seed}");
                assert!(!world.poisoned.contains(number), "seed {seed}");
            }
            Err(CommitError::SessionGone(_)) => assert!(world.poisoned.contains(number)),
            Err(CommitError::Unknown(_)) => assert!(world.lost, "seed {seed}"),
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
    let log = world.batcher.engine().log();
    (log.largest, log.sent.len())
}

#[test]
fn every_waiting_caller_gets_its_own_answer() {
    let mut largest = 0;
    for seed in 0..4_000 {
        largest = largest.max(live_through(seed).0);
    }
    assert_eq!(largest, MEMBERS_MAX, "batches were never full");
}

#[test]
fn no_commit_overtakes_another() {
    for seed in 0..500 {
        let mut world = World::new(seed);
        world.batcher.engine().keeps.store(true, Ordering::SeqCst);
        for number in 0..40 {
            world.arrive(number);
            // Polled in order of arrival. The answers come in any order.
            let caller = world.callers.last_mut().unwrap();
            caller.woken.0.store(false, Ordering::SeqCst);
            let waker = Waker::from(Arc::clone(&caller.woken));
            assert!(caller.future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            if world.chance.one_in(3) {
                world.finish_one();
            }
        }
        world.settle();
        let log = world.batcher.engine().log();
        assert!(log.sent.is_sorted(), "seed {seed}: {:?}", log.sent);
        assert_eq!(log.sent.len(), 40);
    }
}

#[test]
fn a_lone_caller_is_answered_in_its_first_poll() {
    let batcher = Batcher::new(Arc::new(Recorder { slots: 1, ..Recorder::default() }));
    let mut chance = Chance(1);
    for round in 0..3 {
        let mut future = Box::pin(batcher.commit(commit(round, &mut chance, false)));
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(_))), "round {round}");
    }
}

#[test]
fn alternating_callers_on_one_thread_share_batches() {
    let mut world = World::new(3);
    world.chance = Chance(3);
    for number in 0..100 {
        world.arrive(number);
    }
    world.settle();
    assert_eq!(world.batcher.engine().log().largest, MEMBERS_MAX);
}

#[test]
fn a_few_commits_wait_for_more_or_for_the_end_of_a_large_batch() {
    for they_become_more in [true, false] {
        let recorder = Recorder { slots: 2, keeps: true.into(), ..Recorder::default() };
        let batcher = Batcher::new(Arc::new(recorder));
        let recorder = Arc::clone(batcher.engine());
        let mut futures = Vec::new();
        let mut come = |numbers: std::ops::Range<usize>| {
            for number in numbers {
                let own = Key::from(format!("own/{number}"));
                let commit = Commit::builder().expect(own.clone(), Expect::Absent).put(own, "");
                let batcher = batcher.clone();
                let commit = commit.build().unwrap();
                let mut future = Box::pin(async move { batcher.commit(commit).await });
                let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending());
                futures.push(future);
            }
        };
        let under_way = || -> Vec<usize> {
            recorder.log().kept.iter().map(|batch| batch.commits().len()).collect()
        };
        let finish_first = || {
            let batch = recorder.log().kept.remove(0);
            recorder.carry_out(batch);
        };
        come(0..8);
        assert_eq!(under_way(), [1, 1]);
        finish_first();
        assert_eq!(under_way(), [1, 6]);
        finish_first();
        come(8..10);
        assert_eq!(under_way(), [6], "two beside six");
        if they_become_more {
            come(10..14);
            assert_eq!(under_way(), [6, 6]);
        } else {
            finish_first();
            assert_eq!(under_way(), [2]);
        }
    }
}

#[test]
fn a_refused_batch_is_sent_again_one_by_one() {
    let batcher = Batcher::new(Arc::new(Recorder { slots: 1, ..Recorder::default() }));
    batcher.engine().keeps.store(true, Ordering::SeqCst);
    let mut context = Context::from_waker(Waker::noop());
    let own = |number: usize, value: &'static str| {
        let key = Key::from(format!("own/{number}"));
        Commit::builder().expect(key.clone(), Expect::Absent).put(key, value).build().unwrap()
    };
    let mut callers: Vec<_> = [(0, ""), (1, ""), (2, "poison"), (3, "")]
        .map(|(number, value)| Box::pin(batcher.commit(own(number, value))))
        .into();
    let mut poll_all =
        || callers.iter_mut().map(|one| one.as_mut().poll(&mut context)).collect::<Vec<_>>();
    let finish = || {
        let kept = batcher.engine().log().kept.pop().unwrap();
        let count = kept.commits().count();
        batcher.engine().carry_out(kept);
        count
    };
    let waiting = poll_all();
    assert!(waiting.iter().all(Poll::is_pending));
    assert_eq!(finish(), 1, "the first commit was alone");
    assert!(matches!(
        callers[0].as_mut().poll(&mut Context::from_waker(Waker::noop())),
        Poll::Ready(Ok(_))
    ));
    let mut rest: Vec<_> = callers.drain(1..).collect();
    let mut poll_rest = || {
        let mut context = Context::from_waker(Waker::noop());
        rest.retain_mut(|one| one.as_mut().poll(&mut context).is_pending());
    };
    poll_rest();
    assert_eq!(finish(), 3, "the others shared a batch that was refused");
    for _ in 0..3 {
        poll_rest();
        assert_eq!(finish(), 1);
    }
    poll_rest();
    assert!(rest.is_empty());
}

#[test]
fn a_caller_that_is_never_polled_again_does_not_block_others() {
    let batcher = Batcher::new(Arc::new(Recorder { slots: 1, ..Recorder::default() }));
    batcher.engine().keeps.store(true, Ordering::SeqCst);
    let mut context = Context::from_waker(Waker::noop());
    let mut chance = Chance(1);
    let mut poll = |caller: &mut Pin<Box<dyn Future<Output = Result<Revision, CommitError>>>>| {
        caller.as_mut().poll(&mut context)
    };
    let mut wait = |number| -> Pin<Box<dyn Future<Output = _>>> {
        let (batcher, commit) = (batcher.clone(), commit(number, &mut chance, false));
        Box::pin(async move { batcher.commit(commit).await })
    };
    let [mut first, mut stuck, mut third] = [wait(0), wait(1), wait(2)];
    for caller in [&mut first, &mut stuck] {
        assert!(poll(caller).is_pending());
    }
    let finish = || {
        let kept = batcher.engine().log().kept.pop().unwrap();
        batcher.engine().carry_out(kept);
    };
    // Finishing a batch starts the next, even if no caller is polled.
    finish();
    assert!(poll(&mut first).is_ready());
    finish();
    assert!(poll(&mut third).is_pending());
    finish();
    assert!(poll(&mut third).is_ready());
    assert!(poll(&mut stuck).is_ready());
    // A leader with its answer wakes a caller that is not polled. The thread with a clock then
    // starts the batch.
    let [mut stuck, mut leader] = [wait(3), wait(4)];
    batcher.engine().keeps.store(false, Ordering::SeqCst);
    assert!(batcher.core.queue.begin(), "as if a caller were leading");
    assert!(poll(&mut stuck).is_pending() && poll(&mut leader).is_pending());
    batcher.core.queue.end();
    Arc::clone(&batcher.core).wake_up();
    batcher.start_waiting();
    assert!(poll(&mut leader).is_ready() && poll(&mut stuck).is_ready());
}

#[test]
fn many_threads_lose_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(6).build().unwrap();
    let batcher = Batcher::new(Arc::new(Recorder { slots: 1, ..Recorder::default() }));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..64)
            .map(|task| {
                let batcher = batcher.clone();
                tokio::spawn(async move {
                    let mut chance = Chance(task);
                    for round in 0..200 {
                        let number = usize::try_from(task * 1_000 + round).unwrap();
                        let commit = commit(number, &mut chance, false);
                        if chance.one_in(10) {
                            let waiting = batcher.commit(commit);
                            // Dropped after its first poll.
                            let mut waiting = Box::pin(waiting);
                            poll_fn(|context| {
                                Poll::Ready(waiting.as_mut().poll(context).is_ready())
                            })
                            .await;
                        } else {
                            let revision = batcher.commit(commit).await.unwrap();
                            assert_eq!(revision.get(), u64::try_from(number).unwrap());
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Applies every batch at once, and counts.
#[derive(Debug, Default)]
struct Counter(AtomicUsize);

impl BatchEngine for Counter {
    fn fits(&self, _: &BatchSize) -> bool {
        true
    }

    fn in_flight(&self) -> usize {
        1
    }

    fn decides_in_start(&self) -> bool {
        true
    }

    fn start(self: &Arc<Self>, batch: CommitBatch) {
        self.0.fetch_add(1, Ordering::SeqCst);
        let results: Vec<_> = batch.commits().map(answer).collect();
        batch.finish(results);
    }
}

#[test]
fn callers_on_one_thread_share_a_batch_in_every_round() {
    const CALLERS: usize = 16;
    const ROUNDS: usize = 50;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let batcher = Batcher::new(Arc::new(Counter::default()));
    let begin = Arc::new(tokio::sync::Barrier::new(CALLERS));
    let call = |caller: usize| {
        let (batcher, begin) = (batcher.clone(), Arc::clone(&begin));
        async move {
            begin.wait().await;
            for round in 0..ROUNDS {
                let key = Key::from(format!("own/{}", caller * ROUNDS + round));
                let commit = Commit::builder().expect(key.clone(), Expect::Absent);
                batcher.commit(commit.put(key, "").build().unwrap()).await.unwrap();
            }
        }
    };
    runtime.block_on(async {
        let tasks: Vec<_> = (0..CALLERS).map(|caller| tokio::spawn(call(caller))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let batches = batcher.engine().0.load(Ordering::SeqCst);
    // The first caller may be done before another arrives.
    assert!(batches <= 2 * ROUNDS + 2, "{batches} batches for {ROUNDS} rounds");
}

/// Applies batches on another thread, and drops some of them.
#[derive(Debug)]
struct Elsewhere {
    runtime: tokio::runtime::Handle,
    started: AtomicUsize,
}

impl BatchEngine for Elsewhere {
    fn fits(&self, size: &BatchSize) -> bool {
        size.operations <= 20
    }

    fn in_flight(&self) -> usize {
        3
    }

    fn decides_in_start(&self) -> bool {
        false
    }

    fn start(self: &Arc<Self>, batch: CommitBatch) {
        let number = self.started.fetch_add(1, Ordering::SeqCst);
        self.runtime.spawn(async move {
            let_others_run().await;
            if number % 50 == 49 {
                return drop(batch);
            }
            if batch.commits().any(is_poison) {
                return batch.refuse(CommitError::SessionGone(crate::SessionId::new(1)));
            }
            let results: Vec<_> = batch.commits().map(answer).collect();
            batch.finish(results);
        });
    }
}

#[test]
fn many_threads_and_batches_elsewhere_lose_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(6).build().unwrap();
    let engine = Elsewhere { runtime: runtime.handle().clone(), started: AtomicUsize::new(0) };
    let batcher = Batcher::new(Arc::new(engine));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..48)
            .map(|task| {
                let batcher = batcher.clone();
                tokio::spawn(async move {
                    let mut chance = Chance(task);
                    for round in 0..150 {
                        let number = usize::try_from(task * 1_000 + round).unwrap();
                        let poison = chance.one_in(20);
                        let commit = commit(number, &mut chance, poison);
                        match batcher.commit(commit).await {
                            Ok(revision) => {
                                assert_eq!(revision.get(), u64::try_from(number).unwrap());
                                assert!(!poison);
                            }
                            Err(CommitError::SessionGone(_)) => assert!(poison),
                            Err(CommitError::Unknown(_)) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        for (number, task) in tasks.into_iter().enumerate() {
            if number % 8 == 7 {
                // Dropped at an arbitrary point.
                task.abort();
                let _aborted = task.await;
            } else {
                task.await.unwrap();
            }
        }
    });
}

#[test]
fn commits_clash_if_one_writes_a_key_that_the_other_touches() {
    let writes = |name: &'static str| {
        Commit::builder().expect(Key::from(name), Expect::Absent).put(Key::from(name), "value")
    };
    let a = writes("a").build().unwrap();
    let b = writes("b").build().unwrap();
    let b_if_no_a = writes("b").expect(Key::from("a"), Expect::Absent).build().unwrap();
    let c_if_no_b = writes("c").expect(Key::from("b"), Expect::Absent).build().unwrap();
    let c_if_gate = writes("c").guard(Key::from("gate"), Expect::Absent).build().unwrap();
    let d_if_gate = writes("d").guard(Key::from("gate"), Expect::Absent).build().unwrap();
    assert!(clash(&a, &a) && clash(&a, &b_if_no_a) && clash(&b_if_no_a, &a));
    assert!(clash(&b, &c_if_no_b) && clash(&c_if_no_b, &b));
    assert!(!clash(&a, &b) && !clash(&a, &c_if_no_b) && !clash(&c_if_gate, &d_if_gate));
}
