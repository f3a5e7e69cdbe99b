//! Carrying batches of commits out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::answer::nonsense;
use super::client::Repeat;
use super::connection::Connection;
use super::store::Shared;
use super::transaction::{Composer, replaced};
use super::verdict::{Effect, Remedy, Saying, Trouble};
use super::wire::{TxnRequest, TxnResponse};
use super::{read, session};
use crate::batch::{Batch, BatchEngine, BatchSize};
use crate::commit::{Commit, Write};
use crate::error::{CommitError, Conflict, Fault, FaultKind};
use crate::key::Key;
use crate::store::{Revision, SessionId, Versioned};

/// Requests under way at the same time: one is decided while the next is on its way. More would
/// leave less to go together, and were slower wherever we measured.
const IN_FLIGHT: usize = 2;

type Told = Result<Revision, CommitError>;

impl BatchEngine for Shared {
    fn fits(&self, size: &BatchSize) -> bool {
        self.composer.room.fits(size)
    }

    fn in_flight(&self) -> usize {
        IN_FLIGHT
    }

    fn start(self: &Arc<Self>, batch: Batch) {
        let shared = Arc::clone(self);
        self.client.spawn(async move { shared.carry_out(batch).await });
    }
}

impl Shared {
    async fn carry_out(&self, batch: Batch) {
        let commits: Vec<&Commit> = batch.commits().collect();
        let trouble = match self.send(&commits).await {
            Ok(decisions) => return batch.finish(decisions),
            Err(trouble) => trouble,
        };
        match trouble.effect {
            Effect::Nothing if trouble.remedy == Remedy::Apart => {
                let error = self.refusal(&commits, trouble).await;
                batch.refuse(error);
            }
            Effect::Nothing => batch.fail(&not_applied(trouble.fault)),
            Effect::Unknown => batch.fail(&CommitError::Unknown(trouble.fault)),
            Effect::Settled => {
                let decisions = self.settle(&commits, &trouble.fault).await;
                batch.finish(decisions);
            }
        }
    }

    pub(super) async fn send(&self, commits: &[&Commit]) -> Result<Vec<Told>, Trouble> {
        let answer = self
            .transact("a commit", Repeat::IfNothingHappened, self.composer.request(commits))
            .await?;
        match self.composer.decisions(commits, answer) {
            Some(decisions) => Ok(self.explain(commits, decisions).await),
            None => Ok(vec![Err(CommitError::Unknown(nonsense("a commit"))); commits.len()]),
        }
    }

    /// What is told of each commit. What those would find that conflict is read now.
    async fn explain(&self, commits: &[&Commit], decisions: Vec<Option<Revision>>) -> Vec<Told> {
        let refused = commits.iter().zip(&decisions).filter(|(_, decided)| decided.is_none());
        let keys: BTreeSet<&Key> = refused.flat_map(|(commit, _)| expected_keys(commit)).collect();
        let keys: Vec<Key> = keys.into_iter().cloned().collect();
        let seen: Result<BTreeMap<&Key, Option<Versioned>>, CommitError> = match keys.as_slice() {
            [] => Ok(BTreeMap::new()),
            keys => match read::load(self, keys).await {
                Ok(snapshot) => Ok(keys.iter().zip(snapshot.values).collect()),
                Err(error) => Err(not_applied(error.fault().clone())),
            },
        };
        let told = |(commit, decided): (&&Commit, Option<Revision>)| {
            if let Some(revision) = decided {
                return Ok(revision);
            }
            let seen = seen.as_ref().map_err(CommitError::clone)?;
            let found = expected_keys(commit)
                .map(|key| (key.clone(), seen.get(key).cloned().flatten()))
                .collect();
            Err(CommitError::Conflict(Conflict { found }))
        };
        commits.iter().zip(decisions).map(told).collect()
    }

    pub(super) async fn transact(
        &self,
        what: &str,
        repeat: Repeat,
        request: TxnRequest,
    ) -> Result<TxnResponse, Trouble> {
        let request = &request;
        let send = |connection: Arc<Connection>, limit| {
            let request = connection.request(request.clone(), limit);
            async move { connection.kv().txn(request).await }
        };
        self.client.call(what, repeat, send).await
    }

    /// Why a commit was refused, if it is one that has been refused alone.
    async fn refusal(&self, commits: &[&Commit], trouble: Trouble) -> CommitError {
        let gone = match commits {
            [commit] if trouble.saying == Some(Saying::LeaseNotFound) => {
                self.session_gone(commit).await
            }
            _ => None,
        };
        gone.map_or_else(|| not_applied(trouble.fault), CommitError::SessionGone)
    }

    /// Which session of a commit has ended. etcd does not say.
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

    /// What has become of commits that a full server has settled without saying how.
    ///
    /// If what would be untrue after a commit is still true, the commit was not applied, unless it
    /// made a key that somebody has taken away again. If it is not true any more, that may be the
    /// work of somebody else.
    async fn settle(&self, commits: &[&Commit], full: &Fault) -> Vec<Told> {
        let inquiry = self.composer.inquiry(commits);
        let answer = self.transact("an inquiry", Repeat::Freely, inquiry).await.ok();
        let findings = answer.and_then(Composer::findings).unwrap_or_default();
        let mut findings = findings.into_iter();
        let mut decisions = Vec::with_capacity(commits.len());
        for commit in commits {
            let unchanged = findings.next().unwrap_or(false) && replaced(commit).next().is_some();
            decisions.push(if !unchanged {
                Err(CommitError::Unknown(full.clone()))
            } else if commit.writes().iter().any(|write| matches!(write, Write::Put { .. })) {
                Err(not_applied(full.clone()))
            } else {
                // There is always room for less. It was in the wrong company.
                self.send_alone(commit).await
            });
        }
        decisions
    }

    async fn send_alone(&self, commit: &Commit) -> Told {
        match self.send(&[commit]).await {
            Ok(decisions) => decisions
                .into_iter()
                .next()
                .unwrap_or_else(|| Err(CommitError::Unknown(nonsense("a commit")))),
            Err(trouble) if trouble.effect == Effect::Nothing => Err(not_applied(trouble.fault)),
            Err(trouble) => Err(CommitError::Unknown(trouble.fault)),
        }
    }
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
