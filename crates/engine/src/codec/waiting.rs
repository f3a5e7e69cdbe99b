use shardwright_contracts::{CanonicalBytes, CanonicalSink, LogicalTime};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// A worker that found nothing to do and waits to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// When it stops waiting.
    pub until: LogicalTime,
}

impl Record for Waiting {
    const KIND: Kind = Kind::Waiting;
}

impl CanonicalBytes for Waiting {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.until.write_canonical(sink);
    }
}

impl ReadFields for Waiting {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { until: reader.time()? })
    }
}
