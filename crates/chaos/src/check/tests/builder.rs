//! Builds histories of one run with one shard of ten keys.

use crate::check::{Findings, Seen, check};
use crate::final_state::{FinalRun, FinalShard, FinalState};
use crate::history::{
    Acquired, Action, Effect, Facts, History, Outcome, Recorded, Refusal, Root, Status,
};

pub(super) const RUN: u64 = 1;
pub(super) const ROOT: u64 = 5;
pub(super) const START: u64 = 100;
pub(super) const END: u64 = 110;

/// A history under construction, and the records stored after it.
pub(super) struct HistoryBuilder {
    pub(super) history: History,
    pub(super) state: FinalState,
    now: u64,
}

impl HistoryBuilder {
    /// A registered run. At the end the root is done, with this number of acquires.
    pub(super) fn of_one_shard(acquires: u32) -> Self {
        let root = Root { shard: ROOT, start: START, end: END };
        let seen =
            Seen { status: Status::Done, start: START, end: END, cursor: Some(END - 1), acquires };
        let shard = FinalShard { shard: ROOT, parent: None, seen };
        let run = FinalRun {
            run: RUN,
            is_done: true,
            shards: vec![shard],
            counts: [0, 1, 0, 0],
            watermark: Some(END),
        };
        let state = FinalState { runs: vec![run], complaints: Vec::new() };
        let mut builder = Self { history: History::default(), state, now: 1_000 };
        builder.call(1, Action::Register { op: 999, roots: vec![root] }, done());
        builder
    }

    /// Adds a call that is answered at once.
    pub(super) fn call(&mut self, worker: u64, action: Action, outcome: Outcome) {
        let call = self.begin(worker, action);
        self.answer(call, outcome);
    }

    /// Adds a call without an answer.
    pub(super) fn begin(&mut self, worker: u64, action: Action) -> usize {
        let recorded = Recorded { called: self.tick(), answer: None, worker, run: RUN, action };
        self.history.calls.push(recorded);
        self.history.calls.len() - 1
    }

    pub(super) fn answer(&mut self, call: usize, outcome: Outcome) {
        let at = self.tick();
        self.history.calls[call].answer = Some((at, outcome));
    }

    /// A worker acquires the root.
    pub(super) fn acquire(&mut self, worker: u64, fence: u64, cursor: Option<u64>) {
        self.acquire_part(worker, ROOT, fence, (START, END), cursor);
    }

    pub(super) fn acquire_part(
        &mut self,
        worker: u64,
        shard: u64,
        fence: u64,
        (start, end): (u64, u64),
        cursor: Option<u64>,
    ) {
        let acquired = Some(Acquired { shard, fence, start, end, cursor });
        let outcome = Outcome::Done(Facts { acquired, ..Facts::default() });
        self.call(worker, Action::Acquire { shard }, outcome);
    }

    pub(super) fn process(&mut self, shard: u64, fence: u64, from: u64, to: u64) {
        let at = self.tick();
        self.history.effects.push(Effect { at, run: RUN, shard, fence, from, to });
    }

    /// A worker processes keys of the root and moves the cursor.
    pub(super) fn advance(&mut self, worker: u64, fence: u64, op: u64, from: u64, to: u64) {
        self.process(ROOT, fence, from, to);
        self.call(worker, checkpoint(fence, op, to), done());
    }

    /// A worker processes the rest of the root and completes the root and the run.
    pub(super) fn end(&mut self, worker: u64, fence: u64, from: u64) {
        self.process(ROOT, fence, from, END - 1);
        self.call(worker, complete(fence, 70, END - 1), done());
        self.call(worker, Action::CompleteRun { op: 71 }, done());
    }

    pub(super) fn root(&mut self) -> &mut Seen {
        &mut self.state.runs[0].shards[0].seen
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.now += 10;
        self.now
    }

    pub(super) fn findings(&self) -> Findings {
        check(&self.history, &self.state)
    }

    /// Fails if there is a violation.
    #[track_caller]
    pub(super) fn is_clean(&self) {
        assert_eq!(self.findings().violations, Vec::<String>::new());
    }

    /// Fails unless a violation contains this text.
    #[track_caller]
    pub(super) fn is_violated(&self, text: &str) {
        let violations = self.findings().violations;
        assert!(violations.iter().any(|found| found.contains(text)), "{violations:#?}");
    }
}

pub(super) const fn checkpoint(fence: u64, op: u64, key: u64) -> Action {
    Action::Checkpoint { shard: ROOT, fence, op, key }
}

pub(super) const fn complete(fence: u64, op: u64, key: u64) -> Action {
    Action::Complete { shard: ROOT, fence, op, key }
}

pub(super) fn done() -> Outcome {
    Outcome::Done(Facts::default())
}

pub(super) fn replayed() -> Outcome {
    Outcome::Done(Facts { replayed: true, ..Facts::default() })
}

pub(super) fn unknown() -> Outcome {
    Outcome::Unknown("lost".to_owned())
}

pub(super) const fn stale(current: u64) -> Outcome {
    Outcome::Refused(Refusal::StaleFence { current })
}
