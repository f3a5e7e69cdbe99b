use bytes::Bytes;
use shardwright_contracts::{CanonicalBytes, CanonicalSink};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};

/// The version that every record is written in, and the only one that is read.
pub const VERSION: u8 = 1;

/// Something that is stored as one value.
pub trait Record: CanonicalBytes + ReadFields {
    /// Which kind it is.
    const KIND: Kind;

    /// The bytes to store.
    #[must_use]
    fn encode(&self) -> Bytes {
        encode_as(Self::KIND, self)
    }

    /// Reads what was stored.
    fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(Self::KIND, value)?;
        let record = Self::read_fields(&mut reader)?;
        reader.finish()?;
        Ok(record)
    }
}

/// Writes a record of `kind` from whatever has its fields, with one allocation.
///
/// The fields are written twice, the first time only to be measured: so the buffer is as long as
/// the record, and becomes the value without another allocation or a copy.
pub(super) fn encode_as<F: CanonicalBytes + ?Sized>(kind: Kind, fields: &F) -> Bytes {
    let tag = [kind.as_byte(), VERSION];
    let mut length = Length(tag.len());
    fields.write_canonical(&mut length);
    let mut value = Vec::with_capacity(length.0);
    value.put_raw(&tag);
    fields.write_canonical(&mut value);
    Bytes::from(value)
}

/// Counts bytes and forgets them.
struct Length(usize);

impl CanonicalSink for Length {
    fn put_raw(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}
