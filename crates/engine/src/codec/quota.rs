use shardwright_contracts::{CanonicalBytes, CanonicalSink};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// How many shards are reserved: by the runs of one tenant, or by all runs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The shards.
    pub reserved: u64,
}

impl Record for Quota {
    const KIND: Kind = Kind::Quota;
}

impl CanonicalBytes for Quota {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u64(self.reserved);
    }
}

impl ReadFields for Quota {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { reserved: reader.u64()? })
    }
}
