//! What etcd answers, as we see it.

use bytes::{BufMut, Bytes, BytesMut};

use super::wire::response_op::Response;
use super::wire::{KeyValue, RangeResponse, ResponseHeader, ResponseOp};
use crate::error::{Fault, FaultKind};
use crate::key::{Key, StoreRange};
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

/// What all keys of one store begin with in etcd.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    prefix: Bytes,
    /// The first key after all of ours; etcd's own sign for the end of all keys if there is none.
    end: Bytes,
}

/// etcd's way to say: no end.
const NO_END: &[u8] = &[0];

impl Namespace {
    pub(crate) fn new(prefix: Bytes) -> Self {
        let end = StoreRange::prefix(prefix.clone()).end().map(Key::to_bytes);
        Self { prefix, end: end.unwrap_or(Bytes::from_static(NO_END)) }
    }

    pub(crate) const fn prefix(&self) -> &Bytes {
        &self.prefix
    }

    /// A key as etcd sees it.
    pub(crate) fn outer(&self, key: &Key) -> Bytes {
        let mut bytes = BytesMut::with_capacity(self.prefix.len() + key.as_bytes().len());
        bytes.put_slice(&self.prefix);
        bytes.put_slice(key.as_bytes());
        bytes.freeze()
    }

    /// A key of etcd as we see it; none if it is not ours.
    pub(crate) fn inner(&self, key: &[u8]) -> Option<Key> {
        key.strip_prefix(&*self.prefix).map(|ours| Key::new(Bytes::copy_from_slice(ours)))
    }

    /// A range as etcd sees it: from the first key up to, and without, the second.
    pub(crate) fn range(&self, range: &StoreRange) -> (Bytes, Bytes) {
        let end = range.end().map_or_else(|| self.end.clone(), |end| self.outer(end));
        (self.outer(range.start()), end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_in_and_come_out_again() {
        let ours = Namespace::new(Bytes::from_static(b"ours/"));
        assert_eq!(ours.outer(&Key::from("a")), "ours/a");
        assert_eq!(ours.inner(b"ours/a"), Some(Key::from("a")));
        assert_eq!(ours.inner(b"theirs/a"), None);
    }

    #[test]
    fn a_range_without_end_ends_where_the_namespace_does() {
        let ours = Namespace::new(Bytes::from_static(b"ours/"));
        let all = ours.range(&StoreRange::prefix(""));
        assert_eq!(all, (Bytes::from_static(b"ours/"), Bytes::from_static(b"ours0")));
        let some = ours.range(&StoreRange::prefix("a"));
        assert_eq!(some, (Bytes::from_static(b"ours/a"), Bytes::from_static(b"ours/b")));
        let highest = Namespace::new(Bytes::from_static(&[0xff]));
        let all = highest.range(&StoreRange::prefix(""));
        assert_eq!(all, (Bytes::from_static(&[0xff]), Bytes::from_static(NO_END)));
    }
}
