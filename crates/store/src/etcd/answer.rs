//! Converts answers of etcd to the types of this crate.

use bytes::{BufMut, Bytes, BytesMut};

use super::wire::response_op::Response;
use super::wire::{KeyValue, RangeResponse, ResponseHeader, ResponseOp};
use crate::error::{Fault, FaultKind};
use crate::key::{Key, StoreRange};
use crate::store::{Revision, SessionId, Versioned};

/// The error for an answer that does not match its request.
pub(crate) fn mismatched(what: &str) -> Fault {
    Fault::new(FaultKind::Other, format!("etcd answered {what} with a mismatched response"))
}

/// The revision of an answer.
pub(crate) fn revision_of(header: Option<&ResponseHeader>) -> Revision {
    revision(header.map_or(0, |header| header.revision))
}

/// Converts a revision of etcd, which is never negative.
pub(crate) const fn revision(number: i64) -> Revision {
    Revision::new(number.unsigned_abs())
}

/// A key and its value, or `None` if the key is outside the namespace.
pub(crate) fn entry(namespace: &Namespace, found: KeyValue) -> Option<(Key, Versioned)> {
    let key = namespace.inner(&found.key)?;
    Some((key, versioned(found)))
}

fn versioned(found: KeyValue) -> Versioned {
    let session = (found.lease != 0).then(|| SessionId::new(found.lease.cast_unsigned()));
    // All values of an answer share one block of memory. A copy avoids keeping the whole answer
    // alive.
    let value = Bytes::copy_from_slice(&found.value);
    Versioned::new(value, revision(found.mod_revision), session)
}

/// The value of one key.
pub(crate) fn single(range: RangeResponse) -> Option<Versioned> {
    range.kvs.into_iter().next().map(versioned)
}

/// The results of a transaction that only reads, in order.
pub(crate) fn reads(responses: Vec<ResponseOp>) -> Option<Vec<Option<Versioned>>> {
    let read = |operation: ResponseOp| match operation.response {
        Some(Response::ResponseRange(range)) => Some(single(range)),
        _ => None,
    };
    responses.into_iter().map(read).collect()
}

/// The prefix of all keys of a store in etcd.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    prefix: Bytes,
    /// The first key after the namespace, or etcd's mark for the end of all keys.
    end: Bytes,
}

/// etcd's mark for an open end.
const NO_END: &[u8] = &[0];

impl Namespace {
    pub(crate) fn new(prefix: Bytes) -> Self {
        let end = StoreRange::prefix(prefix.clone()).end().map(Key::to_bytes);
        Self { prefix, end: end.unwrap_or(Bytes::from_static(NO_END)) }
    }

    pub(crate) const fn prefix(&self) -> &Bytes {
        &self.prefix
    }

    /// A key with the prefix.
    pub(crate) fn outer(&self, key: &Key) -> Bytes {
        let mut bytes = BytesMut::with_capacity(self.prefix.len() + key.as_bytes().len());
        bytes.put_slice(&self.prefix);
        bytes.put_slice(key.as_bytes());
        bytes.freeze()
    }

    /// A key without the prefix, or `None` if it is outside the namespace.
    pub(crate) fn inner(&self, key: &[u8]) -> Option<Key> {
        key.strip_prefix(&*self.prefix).map(|ours| Key::new(Bytes::copy_from_slice(ours)))
    }

    /// A range with the prefix, as its first key and its exclusive end.
    pub(crate) fn range(&self, range: &StoreRange) -> (Bytes, Bytes) {
        let end = range.end().map_or_else(|| self.end.clone(), |end| self.outer(end));
        (self.outer(range.start()), end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixed_keys_round_trip() {
        let ours = Namespace::new(Bytes::from_static(b"ours/"));
        assert_eq!(ours.outer(&Key::from("a")), "ours/a");
        assert_eq!(ours.inner(b"ours/a"), Some(Key::from("a")));
        assert_eq!(ours.inner(b"theirs/a"), None);
    }

    #[test]
    fn an_open_range_ends_with_the_namespace() {
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
