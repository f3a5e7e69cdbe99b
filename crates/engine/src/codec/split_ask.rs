use shardwright_contracts::{CanonicalBytes, CanonicalSink, FenceEpoch};
use shardwright_coordination::SplitRequest;
use shardwright_coordination::ops::SplitRequestSlot;

use super::error::DecodeError;
use super::fields::put_optional;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// What has been asked of a shard's holder, and of which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitAsk {
    /// The fence of the holder. What was asked of an earlier one is void.
    pub fence: FenceEpoch,
    /// What has been asked.
    pub slot: SplitRequestSlot,
}

impl Record for SplitAsk {
    const KIND: Kind = Kind::SplitAsk;
}

impl CanonicalBytes for SplitAsk {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        let SplitRequestSlot { open, not_before } = self.slot;
        self.fence.write_canonical(sink);
        put_optional(sink, open, |sink, SplitRequest { asker, asked_at, expires_at }| {
            asker.write_canonical(sink);
            asked_at.write_canonical(sink);
            expires_at.write_canonical(sink);
        });
        put_optional(sink, not_before, |sink, time| time.write_canonical(sink));
    }
}

impl ReadFields for SplitAsk {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let fence = reader.fence()?;
        let open = reader.optional(|reader| {
            let (asker, asked_at) = (reader.worker()?, reader.time()?);
            Ok(SplitRequest { asker, asked_at, expires_at: reader.time()? })
        })?;
        let not_before = reader.optional(Reader::time)?;
        Ok(Self { fence, slot: SplitRequestSlot { open, not_before } })
    }
}
