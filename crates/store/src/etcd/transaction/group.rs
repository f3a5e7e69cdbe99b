//! Commits that expect the same thing first, in one request.

use std::collections::HashMap;

use super::super::namespace::Namespace;
use super::super::wire::{TxnRequest, TxnResponse};
use super::{compare, flat, nested, transaction};
use crate::commit::{Commit, Expectation};

/// Some commits of a request, and what all of them expect first. One that has no company is a
/// group as well.
pub(super) struct Group<'c> {
    first: Option<&'c Expectation>,
    members: Vec<(usize, &'c Commit)>,
}

/// Puts together what is decided together.
pub(super) fn groups<'c>(commits: &[&'c Commit]) -> Vec<Group<'c>> {
    let mut groups: Vec<Group<'c>> = Vec::new();
    let mut known = HashMap::new();
    for member in commits.iter().copied().enumerate() {
        let first = member.1.expectations().first();
        let place = *known.entry(first).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.members.push(member),
            None => groups.push(Group { first, members: vec![member] }),
        }
    }
    groups
}

impl Group<'_> {
    pub(super) fn request(&self, namespace: &Namespace) -> TxnRequest {
        if let [(_, commit)] = self.members.as_slice() {
            return flat(namespace, commit, commit.expectations());
        }
        let inner = self.members.iter().map(|(_, commit)| {
            let rest = commit.expectations().get(1..).unwrap_or_default();
            nested(flat(namespace, commit, rest))
        });
        TxnRequest {
            compare: self.first.iter().map(|expected| compare(namespace, expected)).collect(),
            success: inner.collect(),
            failure: Vec::new(),
        }
    }

    /// Which of the members were applied; none if the answer is not one to our request.
    pub(super) fn applied(&self, answer: TxnResponse) -> Option<Vec<usize>> {
        if !answer.succeeded {
            return Some(Vec::new());
        }
        let members = self.members.iter().map(|(place, _)| *place);
        if self.members.len() == 1 {
            return Some(members.collect());
        }
        if self.members.len() != answer.responses.len() {
            return None;
        }
        let mut applied = Vec::with_capacity(self.members.len());
        for (member, answer) in members.zip(answer.responses) {
            if transaction(answer)?.succeeded {
                applied.push(member);
            }
        }
        Some(applied)
    }
}
