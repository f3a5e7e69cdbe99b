//! Visits every world, level by level.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::action::Action;
use crate::model::Model;
use crate::property::{Rule, Rules, Situations};
use crate::visited::Visited;
use crate::world::World;

/// The result of a search.
#[derive(Debug)]
pub struct Report {
    /// Number of worlds.
    pub states: u64,
    /// Number of worlds whose run has not ended.
    pub running: u64,
    /// Number of steps, including refused ones.
    pub steps: u64,
    /// Number of steps to the farthest world.
    pub depth: u32,
    /// The size of the largest level.
    pub widest: u64,
    /// The situations that occurred.
    pub situations: Situations,
    /// A shortest path to each broken rule.
    pub counterexamples: Vec<Counterexample>,
    /// Duration.
    pub elapsed: Duration,
}

/// A shortest path to a broken rule.
#[derive(Debug)]
pub struct Counterexample {
    /// The rule that the last step breaks.
    pub rule: Rule,
    /// The steps, in order.
    pub actions: Vec<Action>,
}

/// A search of a model.
pub struct Search {
    model: Model,
    threads: usize,
    progress: fn(u32, u64),
}

/// State that the threads of a search share.
struct Shared {
    visited: Visited,
    states: AtomicU64,
    running: AtomicU64,
    steps: AtomicU64,
    stop: AtomicBool,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    situations: Situations,
    /// The rules that were broken, each with a world and the step from there.
    broken: BTreeMap<Rule, (u64, Action)>,
}

/// Threads take worlds in batches. A batch is freed when it is done.
type Level = Vec<Vec<(u64, World)>>;
const BATCH: usize = 512;

impl Search {
    /// A search with one thread per processor.
    #[must_use]
    pub fn new(model: Model) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { model, threads, progress: |_, _| {} }
    }

    /// Sets the number of threads.
    #[must_use]
    pub const fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Calls `progress` with each level's depth and size.
    #[must_use]
    pub const fn on_level(self, progress: fn(u32, u64)) -> Self {
        Self { progress, ..self }
    }

    /// Visits every world, or stops after the level in which a rule is broken.
    #[must_use]
    pub fn run(&self) -> Report {
        let started = Instant::now();
        let shared = Shared::new();
        let first = self.model.start();
        let first = first.and_then(|world| shared.add(world, None));
        let mut level: Level = vec![first.into_iter().collect()];
        let (mut depth, mut widest) = (0, 1);
        loop {
            let next = self.expand(level, &shared);
            let size = next.iter().map(|batch| batch.len() as u64).sum();
            if size == 0 || shared.stop.load(Ordering::Relaxed) {
                break;
            }
            depth += 1;
            widest = widest.max(size);
            (self.progress)(depth, size);
            level = next;
        }
        let found = shared.found.lock().unwrap_or_else(PoisonError::into_inner);
        let broken = found.broken.iter();
        let counterexamples = broken.map(|(&rule, &(from, action))| Counterexample {
            rule,
            actions: self.path_to(&shared.visited, from, action),
        });
        Report {
            states: shared.states.load(Ordering::Relaxed),
            running: shared.running.load(Ordering::Relaxed),
            steps: shared.steps.load(Ordering::Relaxed),
            depth,
            widest,
            situations: found.situations,
            counterexamples: counterexamples.collect(),
            elapsed: started.elapsed(),
        }
    }

    /// Every new world one step away from a level.
    fn expand(&self, level: Level, shared: &Shared) -> Level {
        let (work, next) = (Mutex::new(level), Mutex::new(Level::new()));
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| self.expand_batches(&work, &next, shared));
            }
        });
        next.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn expand_batches(&self, work: &Mutex<Level>, next: &Mutex<Level>, shared: &Shared) {
        let put = |batch| {
            next.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
        };
        let (mut actions, mut situations, mut steps) = (Vec::new(), Situations::default(), 0);
        let mut out = Vec::with_capacity(BATCH);
        while let Some(batch) = { work.lock().unwrap_or_else(PoisonError::into_inner).pop() } {
            for (from, world) in batch {
                self.model.actions(&world, &mut actions);
                steps += actions.len() as u64;
                for action in actions.drain(..) {
                    let step = self.model.step(&world, action);
                    situations.extend(step.situations);
                    if !step.broken.is_empty() {
                        shared.report(from, action, step.broken);
                        continue;
                    }
                    out.extend(step.after.and_then(|after| shared.add(after, Some(from))));
                    if out.len() == BATCH {
                        put(std::mem::replace(&mut out, Vec::with_capacity(BATCH)));
                    }
                }
            }
        }
        put(out);
        shared.steps.fetch_add(steps, Ordering::Relaxed);
        shared.found.lock().unwrap_or_else(PoisonError::into_inner).situations.extend(situations);
    }

    /// The path to a world, followed by one more action.
    fn path_to(&self, visited: &Visited, world: u64, last: Action) -> Vec<Action> {
        let mut path = vec![world];
        let mut at = world;
        while let Some(origin) = visited.origin(at).filter(|origin| *origin != at) {
            path.push(origin);
            at = origin;
        }
        let mut taken = Vec::new();
        let mut here = self.model.start();
        for goal in path.into_iter().rev().skip(1) {
            let mut actions = Vec::new();
            here = here.and_then(|world| {
                self.model.actions(&world, &mut actions);
                actions.into_iter().find_map(|action| {
                    let after = self.model.step(&world, action).after?;
                    (after.fingerprint() == goal).then(|| {
                        taken.push(action);
                        after
                    })
                })
            });
        }
        taken.push(last);
        taken
    }
}

impl Shared {
    fn new() -> Self {
        Self {
            visited: Visited::new(),
            states: AtomicU64::new(0),
            running: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            found: Mutex::default(),
        }
    }

    /// Returns a world if it is new. The initial world is its own origin.
    fn add(&self, world: World, from: Option<u64>) -> Option<(u64, World)> {
        let fingerprint = world.fingerprint();
        if !self.visited.insert(fingerprint, from.unwrap_or(fingerprint)) {
            return None;
        }
        self.states.fetch_add(1, Ordering::Relaxed);
        let running = !world.run.status.is_terminal();
        self.running.fetch_add(running.into(), Ordering::Relaxed);
        Some((fingerprint, world))
    }

    fn report(&self, from: u64, action: Action, broken: Rules) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for rule in Rule::ALL.iter().filter(|rule| broken.contains(**rule)) {
            found.broken.entry(*rule).or_insert((from, action));
        }
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Report {
    /// A shortest path to a rule, if it was broken.
    #[must_use]
    pub fn counterexample(&self, rule: Rule) -> Option<&Counterexample> {
        self.counterexamples.iter().find(|found| found.rule == rule)
    }
}
