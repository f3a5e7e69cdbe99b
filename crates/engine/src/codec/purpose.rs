use shardwright_contracts::limits::MAX_JOB_SIZE;
use shardwright_contracts::{CanonicalBytes, CanonicalSink};
use shardwright_coordination::{InvariantViolation, Job, RunName};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// What a run is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// The name under which it was started, and what was written down about it.
    pub job: Job,
}

impl Record for Purpose {
    const KIND: Kind = Kind::Purpose;
}

impl CanonicalBytes for Purpose {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_bytes(self.job.name.as_str().as_bytes());
        sink.put_bytes(&self.job.description);
    }
}

impl ReadFields for Purpose {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let name = str::from_utf8(reader.bytes()?).ok().and_then(|name| RunName::new(name).ok());
        let name = reader.sound(name.ok_or(InvariantViolation("a run's name is a name")))?;
        let description = reader.bytes()?;
        let is_short = description.len() <= MAX_JOB_SIZE;
        let violation = InvariantViolation("a description is not longer than is kept");
        reader.sound(if is_short { Ok(()) } else { Err(violation) })?;
        Ok(Self { job: Job { name, description: description.into() } })
    }
}
