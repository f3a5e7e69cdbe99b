//! What etcd answers, as we see it.

use bytes::Bytes;

use super::namespace::Namespace;
use super::wire::response_op::Response;
use super::wire::{KeyValue, RangeResponse, ResponseHeader, ResponseOp};
use crate::error::{Fault, FaultKind};
use crate::key::Key;
use crate::store::{Revision, SessionId, Versioned};

/// An answer that does not fit the question.
pub(crate) fn nonsense(what: &str) -> Fault {
    Fault::new(FaultKind::Other, format!("etcd has answered {what} with something else"))
}

/// The moment that an answer is of.
pub(crate) fn moment(header: Option<&ResponseHeader>) -> Revision {
    revision(header.map_or(0, |header| header.revision))
}

/// A revision of etcd, which never is below zero.
pub(crate) const fn revision(number: i64) -> Revision {
    Revision::new(number.unsigned_abs())
}

/// A key and what is under it; none if the key is not ours.
pub(crate) fn entry(namespace: &Namespace, found: KeyValue) -> Option<(Key, Versioned)> {
    let key = namespace.inner(&found.key)?;
    Some((key, versioned(found)))
}

fn versioned(found: KeyValue) -> Versioned {
    let session = (found.lease != 0).then(|| SessionId::new(found.lease.cast_unsigned()));
    // An answer is one block of memory that every value points into. What is kept shall not keep
    // the rest of the answer as well.
    let value = Bytes::copy_from_slice(&found.value);
    Versioned::new(value, revision(found.mod_revision), session)
}

/// What was found under one key.
pub(crate) fn single(range: RangeResponse) -> Option<Versioned> {
    range.kvs.into_iter().next().map(versioned)
}

/// The results of the reads of a transaction that only reads, in their order.
pub(crate) fn reads(responses: Vec<ResponseOp>) -> Option<Vec<Option<Versioned>>> {
    let read = |operation: ResponseOp| match operation.response {
        Some(Response::ResponseRange(range)) => Some(single(range)),
        _ => None,
    };
    responses.into_iter().map(read).collect()
}
