use shardwright_contracts::{CanonicalBytes, CanonicalSink, FenceEpoch, LogicalTime, WorkerId};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// Who owns a shard. Goes away with the owner's session, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The worker.
    pub owner: WorkerId,
    /// The fence of its lease.
    pub fence: FenceEpoch,
    /// When its lease ends.
    pub deadline: LogicalTime,
}

impl Record for Binding {
    const KIND: Kind = Kind::Binding;
}

impl CanonicalBytes for Binding {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.owner.write_canonical(sink);
        self.fence.write_canonical(sink);
        self.deadline.write_canonical(sink);
    }
}

impl ReadFields for Binding {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (owner, fence) = (reader.worker()?, reader.fence()?);
        Ok(Self { owner, fence, deadline: reader.time()? })
    }
}
