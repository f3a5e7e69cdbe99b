//! Applies batches of commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::answer::mismatched;
use super::client::Repeat;
use super::connection::Connection;
use super::failure::{Effect, EtcdFailure, Remedy, ServerMessage};
use super::options::EtcdTimeouts;
use super::store::Shared;
use super::transaction::{Composer, replaced};
use super::wire::{TxnRequest, TxnResponse};
use super::{read, session};
use crate::batch::{BatchEngine, BatchSize, CommitBatch};
use crate::commit::{Commit, Expect, Write};
use crate::error::{CommitError, Conflict, Fault, FaultKind};
use crate::key::Key;
use crate::store::{Revision, SessionId, Versioned};

/// The largest number of requests in flight: the server decides one while the next arrives. More
/// requests make smaller batches, and were slower in every measurement.
const IN_FLIGHT: usize = 2;

type Reported = Result<Revision, CommitError>;

impl BatchEngine for Shared {
    fn fits(&self, size: &BatchSize) -> bool {
        self.composer.budget.fits(size)
    }

    fn in_flight(&self) -> usize {
        IN_FLIGHT
    }

    fn decides_in_start(&self) -> bool {
        false
    }

    fn start(self: &Arc<Self>, batch: CommitBatch) {
        let shared = Arc::clone(self);
        self.client.spawn(async move { shared.apply(batch).await });
    }
}

impl Shared {
    async fn apply(&self, batch: CommitBatch) {
        let commits: Vec<&Commit> = batch.commits().collect();
        let failure = match self.decide_in_time(&batch, &commits).await {
            Ok(decisions) => {
                // A conflict reports what is stored. Only conflicting callers wait for that read.
                let conflicting = batch.part(decisions);
                let commits: Vec<&Commit> = conflicting.commits().collect();
                let conflicts = self.conflicts(&commits).await;
                return conflicting.finish(conflicts.into_iter().map(Err));
            }
            Err(failure) => failure,
        };
        match failure.effect {
            Effect::Nothing if failure.remedy == Remedy::Apart => {
                let error = self.refusal(&commits, failure).await;
                batch.refuse(error);
            }
            Effect::Nothing => batch.fail(&not_applied(failure.fault)),
            Effect::Unknown => batch.fail(&CommitError::Unknown(failure.fault)),
            Effect::Settled => {
                let decisions = self.settle(&commits, &failure.fault).await;
                batch.finish(decisions);
            }
        }
    }

    /// The outcomes of a batch. The batch is marked as stalled when it takes unusually long.
    async fn decide_in_time(
        &self,
        batch: &CommitBatch,
        commits: &[&Commit],
    ) -> Result<Vec<Option<Reported>>, EtcdFailure> {
        let EtcdTimeouts { call, attempt, .. } = *self.client.timeouts();
        // The timeout of a call includes its time in the queue, but leaves enough time for an
        // answer.
        let time = call.saturating_sub(batch.waited()).max(attempt);
        self.decide(commits, time, &|| batch.report_stall()).await
    }

    /// The outcomes of commits in one request, or `None` for those that conflict. The batch is
    /// marked as stalled when the answer takes long.
    pub(super) async fn decide(
        &self,
        commits: &[&Commit],
        time: Duration,
        is_slow: &(dyn Fn() + Sync),
    ) -> Result<Vec<Option<Reported>>, EtcdFailure> {
        let request = || self.composer.request(commits);
        let repeat = Repeat::IfNotApplied;
        let answer = self.transact("a commit", repeat, time, is_slow, request).await?;
        Ok(match self.composer.decisions(commits, answer) {
            Some(decisions) => decisions.into_iter().map(|decided| decided.map(Ok)).collect(),
            None => vec![Some(Err(CommitError::Unknown(mismatched("a commit")))); commits.len()],
        })
    }

    /// The conflicts of commits, with the current values.
    async fn conflicts(&self, commits: &[&Commit]) -> Vec<CommitError> {
        let keys: BTreeSet<&Key> = commits.iter().flat_map(|it| expected_keys(it)).collect();
        let keys: Vec<Key> = keys.into_iter().cloned().collect();
        if keys.is_empty() {
            return Vec::new();
        }
        let seen: BTreeMap<&Key, Option<Versioned>> = match read::load(self, &keys).await {
            Ok(snapshot) => keys.iter().zip(snapshot.values).collect(),
            Err(error) => return vec![not_applied(error.fault().clone()); commits.len()],
        };
        let found = |key: &Key| (key.clone(), seen.get(key).cloned().flatten());
        let conflict =
            |commit: &&Commit| Conflict { found: expected_keys(commit).map(found).collect() };
        commits.iter().map(|commit| CommitError::Conflict(conflict(commit))).collect()
    }

    /// Sends a request. A resend rebuilds it, because resends are rarer than a copy per request.
    pub(super) async fn transact(
        &self,
        what: &str,
        repeat: Repeat,
        time: Duration,
        is_slow: &(dyn Fn() + Sync),
        request: impl Fn() -> TxnRequest + Send + Sync,
    ) -> Result<TxnResponse, EtcdFailure> {
        let send = |connection: Arc<Connection>, limit| {
            let request = connection.request(request(), limit);
            async move { connection.kv().txn(request).await }
        };
        self.client.call_within(time, is_slow, what, repeat, send).await
    }

    /// The error of a refused request. If it has a single commit, the error is specific.
    async fn refusal(&self, commits: &[&Commit], failure: EtcdFailure) -> CommitError {
        let gone = match commits {
            [commit] if failure.message == Some(ServerMessage::LeaseNotFound) => {
                self.session_gone(commit).await
            }
            _ => None,
        };
        gone.map_or_else(|| not_applied(failure.fault), CommitError::SessionGone)
    }

    /// The session of a commit that has ended. etcd does not report it.
    async fn session_gone(&self, commit: &Commit) -> Option<SessionId> {
        let session = |write: &Write| match write {
            Write::Put { session, .. } => *session,
            Write::Delete { .. } => None,
        };
        let sessions: BTreeSet<SessionId> = commit.writes().iter().filter_map(session).collect();
        let mut sessions = sessions.into_iter();
        let first = sessions.next()?;
        for other in sessions.by_ref() {
            if session::is_gone(self, other).await {
                return Some(other);
            }
        }
        Some(first)
    }

    /// The outcomes of commits that a full server has settled without reporting how.
    ///
    /// A commit was not applied if all keys that it would have changed are still as it expects, and
    /// one of them existed before: its revision never recurs. Otherwise the outcome stays unknown:
    /// another client may have deleted a key that the commit created, or may have changed the keys
    /// itself.
    async fn settle(&self, commits: &[&Commit], full: &Fault) -> Vec<Reported> {
        let check = || self.composer.outcome_check(commits);
        let time = self.client.timeouts().call;
        let answer = self.transact("an outcome check", Repeat::Freely, time, &|| (), check).await;
        let findings = answer.ok().and_then(Composer::findings).unwrap_or_default();
        let mut findings = findings.into_iter();
        let mut decisions = Vec::with_capacity(commits.len());
        for commit in commits {
            let unchanged = findings.next().unwrap_or(false) && replaces_for_good(commit);
            decisions.push(if !unchanged {
                Err(CommitError::Unknown(full.clone()))
            } else if commit.writes().iter().any(|write| matches!(write, Write::Put { .. })) {
                Err(not_applied(full.clone()))
            } else {
                // Deletions always fit. Only the other commits of the request did not.
                self.send_alone(commit).await
            });
        }
        decisions
    }

    async fn send_alone(&self, commit: &Commit) -> Reported {
        match self.decide(&[commit], self.client.timeouts().call, &|| ()).await {
            Ok(decisions) => match decisions.into_iter().next().flatten() {
                Some(reported) => reported,
                None => {
                    let conflict = self.conflicts(&[commit]).await.pop();
                    Err(conflict.unwrap_or_else(|| CommitError::Unknown(mismatched("a commit"))))
                }
            },
            Err(failure) if failure.effect == Effect::Nothing => Err(not_applied(failure.fault)),
            Err(failure) => Err(CommitError::Unknown(failure.fault)),
        }
    }
}

/// Whether the commit changes a key that it expects to exist. The expected revision never recurs.
fn replaces_for_good(commit: &Commit) -> bool {
    replaced(commit).any(|expected| expected.expect != Expect::Absent)
}

fn expected_keys(commit: &Commit) -> impl Iterator<Item = &Key> {
    commit.expectations().iter().map(|expected| &expected.key)
}

fn not_applied(fault: Fault) -> CommitError {
    if fault.kind == FaultKind::Damaged {
        CommitError::Corrupt(fault)
    } else {
        CommitError::NotApplied(fault)
    }
}
