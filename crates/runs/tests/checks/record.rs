use std::fmt::Debug;

use shardwright_engine::codec::{ClockMark, Format, Kind, Record, StoreGeneration};
use shardwright_runs::records::{
    Asker, Binding, Count, Definition, Estimate, Gate, Manifest, Named, OpenShard, Progress,
    Purpose, Quota, Run, SplitAsk, Stage, Waiting, Watermark,
};

/// Bytes are a record of at most one kind.
pub(crate) fn any_kind(data: &[u8]) {
    for kind in Kind::ALL {
        let decoded = as_kind(*kind, data) == Some(true);
        assert!(!decoded || Kind::of(data) == Some(*kind), "{kind} has another kind's byte");
    }
}

/// Decoding never panics, and what it accepts is exactly what encoding writes. Returns whether it
/// accepted, and nothing for a kind of another protocol.
pub(crate) fn as_kind(kind: Kind, data: &[u8]) -> Option<bool> {
    let decoded = match kind {
        Kind::Definition => check::<Definition>(data),
        Kind::Progress => check::<Progress>(data),
        Kind::Run => check::<Run>(data),
        Kind::Manifest => check::<Manifest>(data),
        Kind::Gate => check::<Gate>(data),
        Kind::Binding => check::<Binding>(data),
        Kind::Waiting => check::<Waiting>(data),
        Kind::Watermark => check::<Watermark>(data),
        Kind::SplitAsk => check::<SplitAsk>(data),
        Kind::Asker => check::<Asker>(data),
        Kind::Count => check::<Count>(data),
        Kind::Quota => check::<Quota>(data),
        Kind::Stage => check::<Stage>(data),
        Kind::ClockMark => check::<ClockMark>(data),
        Kind::StoreGeneration => check::<StoreGeneration>(data),
        Kind::Format => check::<Format>(data),
        Kind::OpenShard => check::<OpenShard>(data),
        Kind::Estimate => check::<Estimate>(data),
        Kind::Named => check::<Named>(data),
        Kind::Purpose => check::<Purpose>(data),
        _ => return None,
    };
    Some(decoded)
}

fn check<R: Record + Debug + PartialEq>(data: &[u8]) -> bool {
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
