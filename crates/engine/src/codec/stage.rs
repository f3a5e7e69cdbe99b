use std::fmt;

use shardwright_contracts::{CanonicalBytes, CanonicalSink, OpId};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// A registration that is under way, so that only the same one can go on with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// The registration's id.
    pub op: OpId,
    /// Fingerprint of what it registers.
    pub payload_hash: u64,
}

/// The fingerprint stays out of logs: it would let a reader test guesses of what was asked.
impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("op", &self.op).finish_non_exhaustive()
    }
}

impl Record for Stage {
    const KIND: Kind = Kind::Stage;
}

impl CanonicalBytes for Stage {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.op.write_canonical(sink);
        sink.put_u64(self.payload_hash);
    }
}

impl ReadFields for Stage {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { op: reader.op()?, payload_hash: reader.u64()? })
    }
}
