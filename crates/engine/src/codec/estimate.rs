use shardwright_contracts::{CanonicalBytes, CanonicalSink, FenceEpoch, LogicalTime, WorkerId};
use shardwright_coordination::WorkEstimate;

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// What a holder thinks of the work that it has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Under which fence it holds the shard.
    pub fence: FenceEpoch,
    /// Who.
    pub holder: WorkerId,
    /// When it said so.
    pub at: LogicalTime,
    /// What it said.
    pub estimate: WorkEstimate,
}

impl Record for Estimate {
    const KIND: Kind = Kind::Estimate;
}

impl CanonicalBytes for Estimate {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        let Self { fence, holder, at, estimate } = self;
        fence.write_canonical(sink);
        holder.write_canonical(sink);
        at.write_canonical(sink);
        sink.put_u64(estimate.done_items);
        sink.put_u64(estimate.done_bytes);
        for left in [estimate.left_items, estimate.left_bytes, estimate.left_ms] {
            sink.put_u8(u8::from(left.is_some()));
            if let Some(left) = left {
                sink.put_u64(left);
            }
        }
        sink.put_u8(u8::from(estimate.is_indivisible));
    }
}

impl ReadFields for Estimate {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (fence, holder, at) = (reader.fence()?, reader.worker()?, reader.time()?);
        let estimate = WorkEstimate {
            done_items: reader.u64()?,
            done_bytes: reader.u64()?,
            left_items: reader.optional(Reader::u64)?,
            left_bytes: reader.optional(Reader::u64)?,
            left_ms: reader.optional(Reader::u64)?,
            is_indivisible: reader.flag("indivisible")?,
        };
        Ok(Self { fence, holder, at, estimate })
    }
}
