//! Commits as transactions of etcd.
//!
//! A commit becomes a transaction: it compares what is expected, and writes. Several become one
//! request: a transaction without a condition, around groups of theirs. Each of them is decided
//! for itself, on the state before the request. What many have in common to expect, such as the
//! gate of their run, is compared once for a group; and nothing is read in case of a conflict,
//! which is rare, and asks afterwards what is there. A server works through a request byte by byte
//! and compare by compare, so that both make a batch cheaper by half.
//!
//! A server counts operations so: the longest list of a transaction, plus that of the longest
//! transaction inside it, and so on, may be 128. So neither the commits of a request nor what one
//! commit writes are limited by one list: they are dealt out to transactions inside.

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

/// Most writes that are dealt out to one inner transaction.
const GROUP_MAX: usize = 13;
/// Most operations of a server that we make use of.
const OPERATIONS_MAX: usize = 128;
const KEY_BYTES_MAX: usize = 1_024;
/// The name of a user, numbers and frames that the server adds before it looks at the size, and
/// what we put around all commits of a request.
const REQUEST_OVERHEAD: usize = 2_048;
/// Tags, lengths and numbers of a compare, without its key.
const EXPECTATION_OVERHEAD: usize = 34;
/// The same for a write, and its share of the transaction that it is dealt out to.
const WRITE_OVERHEAD: usize = 30;

/// How much fits into a request to this server.
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

    /// What one commit may be. Any commit within these fits, however it is made up.
    pub(crate) const fn limits(&self) -> StoreLimits {
        // One operation is the commit itself.
        let expectations = self.operations.saturating_sub(GROUP_MAX + 1);
        let writes = expectations * GROUP_MAX;
        let expected = expectations * (EXPECTATION_OVERHEAD + self.prefix);
        let written = writes * (WRITE_OVERHEAD + self.prefix);
        let bytes = self.bytes.saturating_sub(expected + written);
        StoreLimits { expectations, writes, key_bytes: KEY_BYTES_MAX, bytes }
    }

    /// Whether several commits fit into one request: the list of groups, that of a group, and that
    /// of a commit.
    pub(crate) fn fits(&self, size: &BatchSize) -> bool {
        let overhead = size.operations * (EXPECTATION_OVERHEAD + self.prefix);
        let groups = groups_max(size.commits, self.operations);
        let members = members_max(self.operations).min(size.commits);
        groups + members + size.longest <= self.operations && size.bytes + overhead <= self.bytes
    }
}

/// Makes requests of commits, and results of answers.
#[derive(Clone, Debug)]
pub(crate) struct Composer {
    pub(crate) namespace: Namespace,
    pub(crate) budget: RequestBudget,
}

impl Composer {
    /// One request for some commits, of which [`RequestBudget`] says that they fit.
    pub(crate) fn request(&self, commits: &[&Commit]) -> TxnRequest {
        let namespace = &self.namespace;
        if let Some(commit) = self.bare(commits) {
            return flat(namespace, commit, commit.expectations());
        }
        let inner = match commits {
            [commit] => vec![nested(dealt(namespace, commit))],
            _ => self.groups(commits).map(|group| nested(group.request(namespace))).collect(),
        };
        TxnRequest { success: inner, failure: price(namespace, commits), ..TxnRequest::default() }
    }

    /// The revision of each commit that was applied, and nothing of one that conflicts; none if
    /// the answer is not one to our request.
    pub(crate) fn decisions(
        &self,
        commits: &[&Commit],
        answer: TxnResponse,
    ) -> Option<Vec<Option<Revision>>> {
        let revision = answer::moment(answer.header.as_ref());
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

    /// Asks whether those expectations of some commits are still true that would not be if they
    /// were applied, for each by itself, in a request that is decided like a write.
    pub(crate) fn inquiry(&self, commits: &[&Commit]) -> TxnRequest {
        let question = |commit: &&Commit| {
            let expected = replaced(commit).map(|expected| compare(&self.namespace, expected));
            nested(TxnRequest { compare: expected.collect(), ..TxnRequest::default() })
        };
        let group = |commits: &[&Commit]| {
            let success = commits.iter().map(question).collect();
            nested(TxnRequest { success, ..TxnRequest::default() })
        };
        // A request that holds transactions is no mere read: it goes through the cluster's log.
        let success = commits.chunks(members_max(self.budget.operations)).map(group).collect();
        TxnRequest { success, ..TxnRequest::default() }
    }

    /// What an inquiry has found, for each commit.
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

    /// The commit, if it is alone and needs nothing around it.
    fn bare<'a>(&self, commits: &[&'a Commit]) -> Option<&'a Commit> {
        match commits {
            [commit] if commit.writes().len() <= self.budget.operations => Some(commit),
            _ => None,
        }
    }
}

/// The expectations of a commit that are no longer true once it is applied: about keys that it
/// puts, or that are there and that it deletes.
pub(crate) fn replaced(commit: &Commit) -> impl Iterator<Item = &Expectation> {
    let changed = |expected: &Expectation, write: &Write| match write {
        Write::Put { key, .. } => *key == expected.key,
        Write::Delete { key } => *key == expected.key && expected.expect != Expect::Absent,
    };
    let is_replaced =
        move |expected: &&Expectation| commit.writes().iter().any(|write| changed(expected, write));
    commit.expectations().iter().filter(is_replaced)
}

/// A put that never happens, because the request around all commits has no condition that could
/// fail. A server that is full refuses requests by what they put, but does not look into the
/// transactions inside; without this, all that we write would pass by its quota.
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

/// A commit that expects this.
fn flat(namespace: &Namespace, commit: &Commit, expected: &[Expectation]) -> TxnRequest {
    TxnRequest {
        compare: expected.iter().map(|expected| compare(namespace, expected)).collect(),
        success: commit.writes().iter().map(|write| operation(namespace, write)).collect(),
        failure: Vec::new(),
    }
}

fn dealt(namespace: &Namespace, commit: &Commit) -> TxnRequest {
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
        // What is not there has revision zero in etcd; nothing that is there has it. Nor does
        // etcd ever get to the highest.
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
