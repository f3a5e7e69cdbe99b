use shardwright_contracts::{CanonicalBytes, CanonicalSink};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// How the store is laid out, so that no older or newer code works on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The version of the layout.
    pub version: u32,
}

impl Record for Format {
    const KIND: Kind = Kind::Format;
}

impl CanonicalBytes for Format {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u32(self.version);
    }
}

impl ReadFields for Format {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { version: reader.u32()? })
    }
}
