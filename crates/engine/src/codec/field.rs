use std::num::NonZeroU32;

use shardwright_contracts::{
    CanonicalBytes, CanonicalSink, Cursor, CursorSemantics, CursorUpdate, FenceEpoch, LogicalTime,
    OpId, RunId, ShardId, ShardKey, ShardSpec, TenantId, WorkerId,
};

use super::error::{DecodeError, DecodeProblem};
use super::reader::Reader;

/// A part of a record.
///
/// `P` is the protocol whose records contain the field. Each protocol has a marker type, so that
/// its crate can implement this trait for types of other crates.
pub trait Field<P>: Sized {
    /// Appends the field.
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S);

    /// Reads the field. Errors contain its `name`.
    fn get(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError>;
}

impl<P> Field<P> for u32 {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u32(*self);
    }

    fn get(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
        reader.u32()
    }
}

impl<P> Field<P> for u64 {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u64(*self);
    }

    fn get(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
        reader.u64()
    }
}

impl<P> Field<P> for bool {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u8(u8::from(*self));
    }

    fn get(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        reader.flag(name)
    }
}

impl<P> Field<P> for NonZeroU32 {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u32(self.get());
    }

    fn get(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        let number = Self::new(reader.u32()?);
        number.ok_or_else(|| reader.fail_at(offset, DecodeProblem::Zero { what: name }))
    }
}

impl<P> Field<P> for Box<[u8]> {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_bytes(self);
    }

    fn get(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
        reader.bytes().map(Self::from)
    }
}

impl<P, T: Field<P>> Field<P> for Option<T> {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u8(u8::from(self.is_some()));
        if let Some(value) = self {
            value.put(sink);
        }
    }

    fn get(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        if reader.flag(name)? { T::get(reader, name).map(Some) } else { Ok(None) }
    }
}

/// Implements `Field` for numbers that have a type of their own.
macro_rules! numbers {
    ($($type:ident::$from:ident),+) => {$(
        impl<P> Field<P> for $type {
            fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
                self.write_canonical(sink);
            }

            fn get(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
                reader.u64().map(Self::$from)
            }
        }
    )+};
}

numbers!(
    RunId::from_raw,
    ShardId::from_raw,
    WorkerId::from_raw,
    OpId::from_raw,
    LogicalTime::from_millis
);

impl<P> Field<P> for FenceEpoch {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.write_canonical(sink);
    }

    fn get(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        let fence = Self::from_raw(reader.u64()?);
        fence.map_err(|_| reader.fail_at(offset, DecodeProblem::Zero { what: name }))
    }
}

impl<P> Field<P> for TenantId {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.write_canonical(sink);
    }

    fn get(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
        reader.array().map(Self::from_bytes)
    }
}

impl<P> Field<P> for ShardKey {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.write_canonical(sink);
    }

    fn get(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
        let (run, shard) = (reader.u64()?, reader.u64()?);
        Ok(Self::new(RunId::from_raw(run), ShardId::from_raw(shard)))
    }
}

impl<P> Field<P> for CursorSemantics {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.write_canonical(sink);
    }

    fn get(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        reader.choice(name)
    }
}

impl<P> Field<P> for ShardSpec {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.write_canonical(sink);
    }

    fn get(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        let (start, end, metadata) = (reader.bytes()?, reader.bytes()?, reader.bytes()?);
        Self::try_new(start, end, metadata)
            .map_err(|error| reader.fail_at(offset, DecodeProblem::Spec(error)))
    }
}

impl<P> Field<P> for Cursor {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.as_update().write_canonical(sink);
    }

    fn get(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        let mut part = |name| {
            if reader.flag(name)? { reader.bytes().map(Some) } else { Ok(None) }
        };
        let (last_key, token) = (part("last_key")?, part("token")?);
        if token.is_some_and(<[u8]>::is_empty) {
            return Err(reader.fail_at(offset, DecodeProblem::EmptyToken));
        }
        Self::try_from_update(CursorUpdate::new(last_key, token))
            .map_err(|error| reader.fail_at(offset, DecodeProblem::Cursor(error)))
    }
}
