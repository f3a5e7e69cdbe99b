//! The commits of one request, in groups.
//!
//! Commits with the same first expectation form a group, if there are enough of them, and the group
//! compares it once. The other commits form groups without a shared expectation. A group is a list
//! inside the list of the request, so a request holds more commits than one list.

use std::collections::HashMap;

use super::super::answer::Namespace;
use super::super::wire::{TxnRequest, TxnResponse};
use super::{compare, flat, nested, transaction};
use crate::commit::{Commit, Expectation};

/// The fewest commits that form a group with a shared expectation. It bounds the number of groups.
const SHARING_MIN: usize = 8;

/// Some commits of a request.
pub(super) struct Group<'c> {
    /// The shared first expectation, compared once.
    shared: Option<&'c Expectation>,
    members: Vec<Member<'c>>,
}

/// A commit and its index in the request.
type Member<'c> = (usize, &'c Commit);

/// The largest number of commits in a group, for a server with lists of this many operations.
pub(super) const fn members_max(operations: usize) -> usize {
    operations / 2
}

/// The largest number of groups that this many commits can form.
pub(super) const fn groups_max(commits: usize, operations: usize) -> usize {
    commits / SHARING_MIN + commits / members_max(operations) + 1
}

/// Groups the commits of a request.
pub(super) fn groups<'c>(commits: &[&'c Commit], operations: usize) -> Vec<Group<'c>> {
    let (mut groups, mut others) = (Vec::new(), Vec::new());
    let mut add = |shared, members: Vec<Member<'c>>| {
        let groups_of = members.chunks(members_max(operations));
        groups.extend(groups_of.map(|members| Group { shared, members: members.to_vec() }));
    };
    for (shared, members) in by_first(commits) {
        if shared.is_some() && members.len() >= SHARING_MIN {
            add(shared, members);
        } else {
            others.extend(members);
        }
    }
    add(None, others);
    groups
}

/// The commits by their first expectation.
fn by_first<'c>(commits: &[&'c Commit]) -> Vec<(Option<&'c Expectation>, Vec<Member<'c>>)> {
    let mut sharing: Vec<(Option<&'c Expectation>, Vec<Member<'c>>)> = Vec::new();
    let (mut known, mut place) = (HashMap::new(), 0);
    for member in commits.iter().copied().enumerate() {
        let first = member.1.expectations().first();
        // Mostly the same as for the previous commit.
        if sharing.get(place).is_none_or(|(shared, _)| *shared != first) {
            place = *known.entry(first).or_insert(sharing.len());
        }
        match sharing.get_mut(place) {
            Some((_, members)) => members.push(member),
            None => sharing.push((first, vec![member])),
        }
    }
    sharing
}

impl Group<'_> {
    pub(super) fn request(&self, namespace: &Namespace) -> TxnRequest {
        let inner = self.members.iter().map(|(_, commit)| {
            let rest = commit.expectations().get(self.shared.iter().len()..).unwrap_or_default();
            nested(flat(namespace, commit, rest))
        });
        TxnRequest {
            compare: self.shared.iter().map(|expected| compare(namespace, expected)).collect(),
            success: inner.collect(),
            failure: Vec::new(),
        }
    }

    /// Which of the members were applied, or `None` if the answer does not match the request.
    pub(super) fn applied(&self, answer: TxnResponse) -> Option<Vec<usize>> {
        if !answer.succeeded {
            return Some(Vec::new());
        }
        if self.members.len() != answer.responses.len() {
            return None;
        }
        let mut applied = Vec::with_capacity(self.members.len());
        for ((member, _), answer) in self.members.iter().zip(answer.responses) {
            if transaction(answer)?.succeeded {
                applied.push(*member);
            }
        }
        Some(applied)
    }
}
