use std::fmt::Display;

use shardwright_contracts::InvariantViolation;

use super::error::{DecodeError, DecodeProblem};
use super::kind::RecordKind;
use super::record::VERSION;

/// A record that can be read field by field, in stored order.
pub trait ReadFields: Sized {
    /// Reads the fields and checks the record's invariants.
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// Reads the bytes of one record.
#[derive(Debug)]
pub struct Reader<'a> {
    kind: RecordKind,
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Checks the tag of a record that must be of `kind`, and continues after it.
    pub(super) fn open(kind: RecordKind, value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Self { kind, rest: value, offset: 0 };
        if value.is_empty() {
            return Err(reader.fail(DecodeProblem::Empty));
        }
        reader.byte(|found| {
            if found == kind.as_byte() { Ok(()) } else { Err(DecodeProblem::OtherKind { found }) }
        })?;
        reader.byte(|found| {
            if found == VERSION { Ok(()) } else { Err(DecodeProblem::OtherVersion { found }) }
        })?;
        Ok(reader)
    }

    /// Rejects bytes that no field has read.
    pub(super) fn finish(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            extra => Err(self.fail(DecodeProblem::Trailing { extra })),
        }
    }

    /// Returns the number of bytes read, which is the offset of the next field.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the error for a problem with the next field.
    pub const fn fail(&self, problem: DecodeProblem) -> DecodeError {
        self.fail_at(self.offset, problem)
    }

    /// Returns the error for a problem with the field at `offset`.
    pub(super) const fn fail_at(&self, offset: usize, problem: DecodeProblem) -> DecodeError {
        DecodeError { kind: self.kind, problem, offset }
    }

    /// Returns the error for a value at `offset` that its protocol does not accept.
    pub fn invalid_at(&self, offset: usize, reason: impl Display) -> DecodeError {
        self.fail_at(offset, DecodeProblem::Invalid(reason.to_string().into()))
    }

    /// Returns the record, or the error for the invariant that it violates.
    pub fn sound<T>(&self, record: Result<T, InvariantViolation>) -> Result<T, DecodeError> {
        record.map_err(|violation| self.fail(DecodeProblem::Invariant(violation)))
    }

    fn truncated(&self, needed: usize) -> DecodeError {
        self.fail(DecodeProblem::Truncated { needed, left: self.rest.len() })
    }

    /// Reads an array of bytes, which has no length in front of it.
    pub fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], DecodeError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or_else(|| self.truncated(LEN))?;
        self.rest = rest;
        self.offset += LEN;
        Ok(*array)
    }

    /// Reads one byte and converts it.
    pub fn byte<T>(
        &mut self,
        meaning: impl FnOnce(u8) -> Result<T, DecodeProblem>,
    ) -> Result<T, DecodeError> {
        let offset = self.offset;
        let [byte] = self.array()?;
        meaning(byte).map_err(|problem| self.fail_at(offset, problem))
    }

    /// Reads an enum of one byte.
    pub fn choice<T: TryFrom<u8>>(&mut self, what: &'static str) -> Result<T, DecodeError> {
        self.byte(|byte| T::try_from(byte).map_err(|_| DecodeProblem::UnknownByte { what, byte }))
    }

    /// Reads a byte that is 0 or 1.
    pub fn flag(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        self.byte(|byte| match byte {
            0 => Ok(false),
            1 => Ok(true),
            byte => Err(DecodeProblem::UnknownByte { what, byte }),
        })
    }

    /// Reads four bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads eight bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a byte string, borrowed from the record.
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u32()? as usize;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.truncated(len))?;
        self.rest = rest;
        self.offset += len;
        Ok(bytes)
    }

    /// Reads a byte string that is UTF-8, and returns its offset with it.
    pub fn text(&mut self, what: &'static str) -> Result<(usize, &'a str), DecodeError> {
        let offset = self.offset;
        let bytes = self.bytes()?;
        let text = str::from_utf8(bytes);
        let text = text.map_err(|_| self.fail_at(offset, DecodeProblem::NotText { what }))?;
        Ok((offset, text))
    }

    /// Reads a list. Allocates only if the record is long enough for all items.
    pub fn list<T>(
        &mut self,
        list: List,
        mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let List { what, max, item_bytes, reserve } = list;
        let offset = self.offset;
        let count = self.u32()? as usize;
        if count > max {
            return Err(self.fail_at(offset, DecodeProblem::TooMany { what, count, max }));
        }
        let needed = count.saturating_mul(item_bytes);
        if needed > self.rest.len() {
            return Err(self.truncated(needed));
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut items = Vec::with_capacity(count.max(reserve));
        for _ in 0..count {
            items.push(read(self)?);
        }
        Ok(items)
    }
}

/// Limits of a list.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// Name of the items, plural.
    pub what: &'static str,
    /// Most items.
    pub max: usize,
    /// Fewest bytes per item.
    pub item_bytes: usize,
    /// Capacity to reserve if the list is not empty.
    pub reserve: usize,
}
