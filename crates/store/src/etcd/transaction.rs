//! Commits as transactions of etcd.
//!
//! A commit becomes a transaction that compares and writes. Several commits become one request: an
//! unconditional transaction around groups of them. The server decides each commit separately,
//! against the state before the request. An expectation that many commits share, such as the state
//! of their run, is compared once per group. A conflict is rare, so its values are read afterwards.
//! Both halve the cost of a batch, because a server's work grows with bytes and compares.
//!
//! A server limits the operations of a request to 128: the longest list of a transaction, plus that
//! of the longest transaction inside it, and so on. So neither the commits of a request nor the
//! writes of a commit are limited by one list: they are distributed over inner transactions.

mod group;
#[cfg(test)]
mod tests;

use self::group::{Group, groups, groups_max, members_max};
use super::answer;
use super::answer::Namespace;
use super::options::EtcdServerLimits;
use super::wire::compare::{Result as Relation, Target, TargetUnion};
use super::wire::request_op::Request;
use super::wire::response_op::Response;
use super::wire::{
    Compare, DeleteRangeRequest, PutRequest, RequestOp, ResponseOp, TxnRequest, TxnResponse,
};
use crate::batch::BatchSize;
use crate::commit::{Commit, Expect, Expectation, Write};
use crate::limits::StoreLimits;
use crate::store::Revision;

/// The largest number of writes in one inner transaction.
const GROUP_MAX: usize = 13;
/// The largest number of operations that this client uses.
const OPERATIONS_MAX: usize = 128;
const KEY_BYTES_MAX: usize = 1_024;
/// What the server adds before it checks the size (user name, numbers, frames), and what this
/// client puts around all commits of a request.
const REQUEST_OVERHEAD: usize = 2_048;
/// Tags, lengths and numbers of a compare, without its key.
const EXPECTATION_OVERHEAD: usize = 34;
/// The same for a write, with its share of the inner transaction.
const WRITE_OVERHEAD: usize = 30;

/// The capacity of a request to this server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestBudget {
    operations: usize,
    bytes: usize,
    prefix: usize,
}

impl RequestBudget {
    pub(crate) fn new(server: &EtcdServerLimits, namespace: &Namespace) -> Self {
        Self {
            operations: server.operations.min(OPERATIONS_MAX),
            bytes: server.bytes.saturating_sub(REQUEST_OVERHEAD),
            prefix: namespace.prefix().len(),
        }
    }

    /// The limits of one commit. Any commit within them fits.
    pub(crate) const fn limits(&self) -> StoreLimits {
        // One operation is the commit itself.
        let expectations = self.operations.saturating_sub(GROUP_MAX + 1);
        let writes = expectations * GROUP_MAX;
        let expected = expectations * (EXPECTATION_OVERHEAD + self.prefix);
        let written = writes * (WRITE_OVERHEAD + self.prefix);
        let bytes = self.bytes.saturating_sub(expected + written);
        StoreLimits { expectations, writes, key_bytes: KEY_BYTES_MAX, bytes }
    }

    /// Whether several commits fit into one request: the list of groups, the list of a group, and
    /// the list of a commit.
    pub(crate) fn fits(&self, size: &BatchSize) -> bool {
        let overhead = size.operations * (EXPECTATION_OVERHEAD + self.prefix);
        let groups = groups_max(size.commits, self.operations);
        let members = members_max(self.operations).min(size.commits);
        groups + members + size.longest <= self.operations && size.bytes + overhead <= self.bytes
    }
}

/// Converts commits to requests, and answers to results.
#[derive(Clone, Debug)]
pub(crate) struct Composer {
    pub(crate) namespace: Namespace,
    pub(crate) budget: RequestBudget,
}

impl Composer {
    /// One request for commits that fit by [`RequestBudget`].
    pub(crate) fn request(&self, commits: &[&Commit]) -> TxnRequest {
        let namespace = &self.namespace;
        if let Some(commit) = self.bare(commits) {
            return flat(namespace, commit, commit.expectations());
        }
        let inner = match commits {
            [commit] => vec![nested(distributed(namespace, commit))],
            _ => self.groups(commits).map(|group| nested(group.request(namespace))).collect(),
        };
        TxnRequest { success: inner, failure: price(namespace, commits), ..TxnRequest::default() }
    }

    /// The revision of each applied commit, and `None` for each conflict. Returns `None` if the
    /// answer does not match the request.
    pub(crate) fn decisions(
        &self,
        commits: &[&Commit],
        answer: TxnResponse,
    ) -> Option<Vec<Option<Revision>>> {
        let revision = answer::revision_of(answer.header.as_ref());
        if self.bare(commits).is_some() {
            return Some(vec![answer.succeeded.then_some(revision)]);
        }
        if commits.len() == 1 {
            let inner = answer.responses.into_iter().next().and_then(transaction)?;
            return Some(vec![inner.succeeded.then_some(revision)]);
        }
        let groups = self.groups(commits);
        if groups.len() != answer.responses.len() {
            return None;
        }
        let mut decisions = vec![None; commits.len()];
        for (group, answer) in groups.zip(answer.responses) {
            for member in group.applied(transaction(answer)?)? {
                *decisions.get_mut(member)? = Some(revision);
            }
        }
        Some(decisions)
    }

    /// Checks for each commit whether the keys that it would have changed are still as it expects.
    /// The request is ordered like a write.
    pub(crate) fn outcome_check(&self, commits: &[&Commit]) -> TxnRequest {
        let question = |commit: &&Commit| {
            let expected = replaced(commit).map(|expected| compare(&self.namespace, expected));
            nested(TxnRequest { compare: expected.collect(), ..TxnRequest::default() })
        };
        let group = |commits: &[&Commit]| {
            let success = commits.iter().map(question).collect();
            nested(TxnRequest { success, ..TxnRequest::default() })
        };
        // A request with inner transactions is not a plain read: it goes through the cluster's log.
        let success = commits.chunks(members_max(self.budget.operations)).map(group).collect();
        TxnRequest { success, ..TxnRequest::default() }
    }

    /// The results of an outcome check, for each commit.
    pub(crate) fn findings(answer: TxnResponse) -> Option<Vec<bool>> {
        let mut findings = Vec::new();
        for group in answer.responses {
            for finding in transaction(group)?.responses {
                findings.push(transaction(finding)?.succeeded);
            }
        }
        Some(findings)
    }

    fn groups<'c>(&self, commits: &[&'c Commit]) -> impl ExactSizeIterator<Item = Group<'c>> {
        groups(commits, self.budget.operations).into_iter()
    }

    /// The commit, if it is the only one and needs no surrounding transaction.
    fn bare<'a>(&self, commits: &[&'a Commit]) -> Option<&'a Commit> {
        match commits {
            [commit] if commit.writes().len() <= self.budget.operations => Some(commit),
            _ => None,
        }
    }
}

/// The expectations of a commit that no longer hold once it is applied: those on keys that it puts,
/// or that exist and that it deletes.
pub(crate) fn replaced(commit: &Commit) -> impl Iterator<Item = &Expectation> {
    let changed = |expected: &Expectation, write: &Write| match write {
        Write::Put { key, .. } => *key == expected.key,
        Write::Delete { key } => *key == expected.key && expected.expect != Expect::Absent,
    };
    let is_replaced =
        move |expected: &&Expectation| commit.writes().iter().any(|write| changed(expected, write));
    commit.expectations().iter().filter(is_replaced)
}

/// A put in the branch that never runs, because the outer transaction has no condition. A full
/// server refuses requests by the puts at their top level, and does not check inner transactions.
/// Without this put, all writes would bypass its quota.
fn price(namespace: &Namespace, commits: &[&Commit]) -> Vec<RequestOp> {
    let mut writes = commits.iter().flat_map(|commit| commit.writes());
    let put = writes.find(|write| matches!(write, Write::Put { .. })).map(|put| {
        let put = PutRequest { key: namespace.outer(put.key()), ..PutRequest::default() };
        RequestOp { request: Some(Request::RequestPut(put)) }
    });
    put.into_iter().collect()
}

fn transaction(operation: ResponseOp) -> Option<TxnResponse> {
    match operation.response {
        Some(Response::ResponseTxn(answer)) => Some(answer),
        _ => None,
    }
}

/// A commit with these expectations.
fn flat(namespace: &Namespace, commit: &Commit, expected: &[Expectation]) -> TxnRequest {
    TxnRequest {
        compare: expected.iter().map(|expected| compare(namespace, expected)).collect(),
        success: commit.writes().iter().map(|write| operation(namespace, write)).collect(),
        failure: Vec::new(),
    }
}

fn distributed(namespace: &Namespace, commit: &Commit) -> TxnRequest {
    let groups = commit.writes().chunks(GROUP_MAX).map(|group| {
        let success = group.iter().map(|write| operation(namespace, write)).collect();
        nested(TxnRequest { success, ..TxnRequest::default() })
    });
    let expected = commit.expectations().iter();
    TxnRequest {
        compare: expected.map(|expected| compare(namespace, expected)).collect(),
        success: groups.collect(),
        failure: Vec::new(),
    }
}

fn compare(namespace: &Namespace, expected: &Expectation) -> Compare {
    let revision = match expected.expect {
        Expect::Absent => 0,
        // A missing key has revision zero in etcd, and no existing key has it. etcd never reaches
        // the highest revision.
        Expect::At(Revision::ZERO) => i64::MAX,
        Expect::At(revision) => i64::try_from(revision.get()).unwrap_or(i64::MAX),
    };
    Compare {
        result: Relation::Equal.into(),
        target: Target::Mod.into(),
        key: namespace.outer(&expected.key),
        target_union: Some(TargetUnion::ModRevision(revision)),
    }
}

fn operation(namespace: &Namespace, write: &Write) -> RequestOp {
    let key = namespace.outer(write.key());
    let request = match write {
        Write::Put { value, session, .. } => {
            let lease = session.map_or(0, |session| session.get().cast_signed());
            Request::RequestPut(PutRequest { key, value: value.clone(), lease })
        }
        Write::Delete { .. } => {
            Request::RequestDeleteRange(DeleteRangeRequest { key, ..DeleteRangeRequest::default() })
        }
    };
    RequestOp { request: Some(request) }
}

const fn nested(txn: TxnRequest) -> RequestOp {
    RequestOp { request: Some(Request::RequestTxn(txn)) }
}
