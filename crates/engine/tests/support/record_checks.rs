//! Checks of one stored value, for the records of any protocol. Fuzz targets call them, too.

use std::fmt::Debug;

use shardwright_engine::codec::{Record, RecordKind};

/// Checks bytes as a record of a kind. Returns whether they decode, or none if the kind belongs to
/// another protocol.
pub(crate) type AsKind = fn(RecordKind, &[u8]) -> Option<bool>;

/// Bytes decode as a record of at most one kind.
pub(crate) fn any_kind(as_kind: AsKind, data: &[u8]) {
    for kind in RecordKind::ALL {
        let decoded = as_kind(*kind, data) == Some(true);
        assert!(!decoded || RecordKind::of(data) == Some(*kind), "{kind} has another kind's byte");
    }
}

/// Decoding never panics, and accepts exactly the bytes that encoding writes. Returns whether the
/// bytes decode.
pub(crate) fn check<R: Record + Debug + PartialEq>(data: &[u8]) -> bool {
    match R::decode(data) {
        Ok(record) => {
            let encoded = record.encode();
            assert_eq!(encoded, data, "another encoding of {record:?}");
            assert_eq!(R::decode(&encoded).as_ref(), Ok(&record));
            true
        }
        Err(error) => {
            assert_eq!(error.kind, R::KIND);
            assert!(error.offset <= data.len(), "{error}");
            false
        }
    }
}
