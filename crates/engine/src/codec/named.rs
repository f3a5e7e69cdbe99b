use shardwright_contracts::{CanonicalBytes, CanonicalSink, RunId};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// To which run a name points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The run.
    pub run: RunId,
}

impl Record for Named {
    const KIND: Kind = Kind::Named;
}

impl CanonicalBytes for Named {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.run.write_canonical(sink);
    }
}

impl ReadFields for Named {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { run: reader.run()? })
    }
}
