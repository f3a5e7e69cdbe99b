use shardwright_contracts::{CanonicalBytes, CanonicalSink};
use shardwright_placement::{TargetHeader, TargetVersion};

use super::error::DecodeError;
use super::fields::put_flag;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// What holds for all targets of a cluster together. Every write of targets writes this too, so
/// that comparing it compares all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetHead {
    /// The header.
    pub header: TargetHeader,
}

impl Record for TargetHead {
    const KIND: Kind = Kind::TargetHead;
}

impl CanonicalBytes for TargetHead {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        let TargetHeader { version, frozen, spreading, shedding } = self.header;
        sink.put_u64(version.as_raw());
        put_flag(sink, frozen);
        put_flag(sink, spreading);
        put_flag(sink, shedding);
    }
}

impl ReadFields for TargetHead {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let header = TargetHeader {
            version: TargetVersion::from_raw(reader.u64()?),
            frozen: reader.flag("freeze")?,
            spreading: reader.flag("spreading")?,
            shedding: reader.flag("shedding")?,
        };
        Ok(Self { header })
    }
}
