use shardwright_contracts::{CanonicalBytes, CanonicalSink};
use shardwright_coordination::InvariantViolation;

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// How many shards a run has, and for how many it has reserved room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The shards there are.
    pub used: u64,
    /// The shards there may be before more room has to be reserved; never below `used`.
    pub reserved: u64,
}

impl Record for Count {
    const KIND: Kind = Kind::Count;
}

impl CanonicalBytes for Count {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u64(self.used);
        sink.put_u64(self.reserved);
    }
}

impl ReadFields for Count {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = Self { used: reader.u64()?, reserved: reader.u64()? };
        let covered = count.used <= count.reserved;
        let violation = InvariantViolation("a run has no more shards than it reserved");
        reader.sound(if covered { Ok(count) } else { Err(violation) })
    }
}
