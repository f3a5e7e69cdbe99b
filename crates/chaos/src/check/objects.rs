//! Extracts the history of each shard.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Event, Shard};
use super::search::Operation;
use crate::final_state::{FinalRun, FinalShard, FinalState};
use crate::history::{Action, Facts, History, Outcome, Piece, Recorded, Refusal, Root};

/// The history of one shard.
#[derive(Clone, Debug)]
pub(super) struct ShardHistory {
    /// Its run.
    pub run: u64,
    /// Its id.
    pub shard: u64,
    /// Its initial state.
    pub initial: Shard,
    /// The operations on it.
    pub operations: Vec<Operation>,
}

/// The histories of all shards, and violations in the list of shards.
#[must_use]
pub(super) fn shard_histories(
    history: &History,
    state: &FinalState,
) -> (Vec<ShardHistory>, Vec<String>) {
    let (mut histories, mut complaints) = (Vec::new(), Vec::new());
    let mut by_run: BTreeMap<u64, Vec<&Recorded>> = BTreeMap::new();
    for recorded in &history.calls {
        by_run.entry(recorded.run).or_default().push(recorded);
    }
    let found: BTreeSet<u64> = state.runs.iter().map(|run| run.run).collect();
    for (run, calls) in &by_run {
        if !found.contains(run) && calls.iter().any(|call| is_done(call)) {
            complaints.push(format!("run {run} has calls but does not exist"));
        }
    }
    for run in &state.runs {
        let calls = by_run.remove(&run.run).unwrap_or_default();
        let of_run = RunHistory { run, calls: &calls, roots: roots(&calls) };
        complaints.extend(of_run.lost_shards());
        for shard in &run.shards {
            match of_run.shard(shard) {
                Ok(history) => histories.push(history),
                Err(complaint) => complaints.push(complaint),
            }
        }
    }
    (histories, complaints)
}

fn is_done(recorded: &Recorded) -> bool {
    matches!(&recorded.answer, Some((_, Outcome::Done(_))))
}

fn is_replay(recorded: &Recorded) -> bool {
    matches!(&recorded.answer, Some((_, Outcome::Done(Facts { replayed: true, .. }))))
}

fn roots(calls: &[&Recorded]) -> Vec<Root> {
    let mut registered = calls.iter().filter_map(|recorded| match &recorded.action {
        Action::Register { roots, .. } => Some(roots.clone()),
        _ => None,
    });
    registered.next().unwrap_or_default()
}

struct RunHistory<'h> {
    run: &'h FinalRun,
    calls: &'h [&'h Recorded],
    roots: Vec<Root>,
}

impl RunHistory<'_> {
    /// Shards that an answer named but that do not exist.
    fn lost_shards(&self) -> Vec<String> {
        let exists: BTreeSet<u64> = self.run.shards.iter().map(|shard| shard.shard).collect();
        let named = self.calls.iter().filter_map(|recorded| match &recorded.answer {
            Some((_, Outcome::Done(facts))) => Some(facts),
            _ => None,
        });
        let named = named.flat_map(|facts| {
            facts.children.iter().copied().chain(facts.acquired.map(|acquired| acquired.shard))
        });
        let named = named.chain(self.roots.iter().map(|root| root.shard));
        let lost: BTreeSet<u64> = named.filter(|shard| !exists.contains(shard)).collect();
        let run = self.run.run;
        lost.iter().map(|shard| format!("run {run}: shard {shard:x} is missing")).collect()
    }

    fn shard(&self, shard: &FinalShard) -> Result<ShardHistory, String> {
        let (run, id) = (self.run.run, shard.shard);
        let mut operations: Vec<Operation> =
            self.calls.iter().flat_map(|recorded| self.operations(id, recorded)).collect();
        let initial = match shard.parent {
            None => {
                let root = self.roots.iter().find(|root| root.shard == id);
                let root = root.ok_or(format!("run {run}: shard {id:x} is in no manifest"))?;
                Shard::root(root.start, root.end)
            }
            Some(parent) => {
                let creations = self.creations(parent, shard);
                if creations.is_empty() {
                    return Err(format!("run {run}: shard {id:x} was created by no split"));
                }
                operations.extend(creations);
                Shard::not_created()
            }
        };
        let seen = Event::Seen(shard.seen);
        operations.push(Operation { called: u64::MAX - 1, answered: Some(u64::MAX), event: seen });
        operations.sort_by_key(|operation| operation.called);
        Ok(ShardHistory { run, shard: id, initial, operations })
    }

    /// The splits that created or may have created a shard.
    fn creations(&self, parent: u64, child: &FinalShard) -> Vec<Operation> {
        let made = |recorded: &&Recorded| {
            let piece = pieces(&recorded.action, parent)
                .into_iter()
                .find(|piece| piece.start == child.seen.start)?;
            let answered = match &recorded.answer {
                None | Some((_, Outcome::Unknown(_))) => None,
                Some((at, Outcome::Done(facts))) if facts.children.contains(&child.shard) => {
                    Some(*at).filter(|_| !facts.replayed)
                }
                Some(_) => return None,
            };
            Some(Operation { called: recorded.called, answered, event: Event::Create(piece) })
        };
        self.calls.iter().filter_map(made).collect()
    }

    /// The possible effects of a call on a shard, and its answer.
    fn operations(&self, shard: u64, recorded: &Recorded) -> impl Iterator<Item = Operation> {
        // A call that loses the store's answer retries, and may be answered as a replay of its own
        // effect.
        let unanswered = || Recorded { answer: None, ..recorded.clone() };
        let first = is_replay(recorded).then(|| self.operation(shard, &unanswered())).flatten();
        first.into_iter().chain(self.operation(shard, recorded))
    }

    fn operation(&self, shard: u64, recorded: &Recorded) -> Option<Operation> {
        let Recorded { called, answer, worker, action, .. } = recorded;
        let outcome = answer.as_ref().map(|(_, outcome)| outcome);
        let is_unknown = matches!(outcome, None | Some(Outcome::Unknown(_)));
        let answered = answer.as_ref().map(|(at, _)| *at).filter(|_| !is_unknown);
        let operation = |event| Some(Operation { called: *called, answered, event });
        match (action, outcome) {
            (_, Some(Outcome::NotApplied(_)) | Some(Outcome::Refused(Refusal::Other(_)))) => None,
            (Action::CompleteRun { .. }, Some(Outcome::Done(Facts { replayed: true, .. })))
            | (Action::CompleteRun { .. }, Some(Outcome::Refused(Refusal::RunEnded))) => {
                // One shard of the run is enough to check this.
                self.roots.first().filter(|root| root.shard == shard)?;
                operation(Event::RunSeenEnded)
            }
            (Action::CompleteRun { .. }, _) => operation(Event::EndRun),
            (Action::Register { .. }, _) => None,
            // An answer names the claimed shard. An unknown claim may concern any shard.
            (Action::Claim, Some(Outcome::Done(facts)))
                if facts.acquired.is_none_or(|acquired| acquired.shard != shard) =>
            {
                None
            }
            (Action::Claim, Some(Outcome::Refused(_))) => None,
            (Action::Renew { .. }, _) if is_unknown => None,
            (action, _) if of_shard(action).is_some_and(|other| other != shard) => None,
            // Split requests are advisory and do not concern the state of a shard.
            (Action::RequestSplit { .. } | Action::DeclineSplit { .. }, None)
            | (
                Action::RequestSplit { .. } | Action::DeclineSplit { .. },
                Some(Outcome::Done(_) | Outcome::Unknown(_)),
            ) => None,
            (action, outcome) => operation(Event::Call {
                worker: *worker,
                action: action.clone(),
                outcome: outcome.filter(|_| !is_unknown).cloned(),
            }),
        }
    }
}

/// The shard that an action names.
#[must_use]
pub(super) const fn of_shard(action: &Action) -> Option<u64> {
    match action {
        Action::Acquire { shard }
        | Action::Renew { shard, .. }
        | Action::Checkpoint { shard, .. }
        | Action::Complete { shard, .. }
        | Action::Park { shard, .. }
        | Action::Unpark { shard, .. }
        | Action::Release { shard, .. }
        | Action::SplitReplace { shard, .. }
        | Action::SplitResidual { shard, .. }
        | Action::RequestSplit { shard }
        | Action::DeclineSplit { shard, .. } => Some(*shard),
        Action::Register { .. } | Action::Claim | Action::CompleteRun { .. } => None,
    }
}

/// The new shards that an action splits from a shard.
fn pieces(action: &Action, parent: u64) -> Vec<Piece> {
    match action {
        Action::SplitReplace { shard, children, .. } if *shard == parent => children.clone(),
        Action::SplitResidual { shard, at, end, .. } if *shard == parent => {
            vec![Piece { start: *at, end: *end, cursor: None }]
        }
        _ => Vec::new(),
    }
}
