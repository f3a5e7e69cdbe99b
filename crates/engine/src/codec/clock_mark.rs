use shardwright_contracts::{CanonicalBytes, CanonicalSink, LogicalTime};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// Up to where the clock may have been read. Whoever starts anew reads no earlier time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockMark {
    /// The first time that nobody has been given.
    pub reserved_until: LogicalTime,
}

impl Record for ClockMark {
    const KIND: Kind = Kind::ClockMark;
}

impl CanonicalBytes for ClockMark {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.reserved_until.write_canonical(sink);
    }
}

impl ReadFields for ClockMark {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { reserved_until: reader.time()? })
    }
}
