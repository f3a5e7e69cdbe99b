use bytes::Bytes;
use shardwright_contracts::{CanonicalBytes, CanonicalSink};

use super::error::DecodeError;
use super::kind::RecordKind;
use super::reader::{ReadFields, Reader};

/// Version of every record. Decoding rejects others.
pub const VERSION: u8 = 1;

/// A value of the store.
pub trait Record: CanonicalBytes + ReadFields {
    /// Kind of the record.
    const KIND: RecordKind;

    /// Returns the bytes to store.
    #[must_use]
    fn encode(&self) -> Bytes {
        encode_as(Self::KIND, self)
    }

    /// Reads a stored value.
    fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(Self::KIND, value)?;
        let record = Self::read_fields(&mut reader)?;
        reader.finish()?;
        Ok(record)
    }
}

/// Encodes a record of `kind` from its fields, with one allocation.
///
/// The first of two passes measures the fields. The buffer then has the record's exact length and
/// becomes the value without another allocation or copy.
pub fn encode_as<F: CanonicalBytes + ?Sized>(kind: RecordKind, fields: &F) -> Bytes {
    let tag = [kind.as_byte(), VERSION];
    let mut length = Length(tag.len());
    fields.write_canonical(&mut length);
    let mut value = Vec::with_capacity(length.0);
    value.put_raw(&tag);
    fields.write_canonical(&mut value);
    Bytes::from(value)
}

/// Counts bytes without keeping them.
struct Length(usize);

impl CanonicalSink for Length {
    fn put_raw(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// Declares the records of a protocol, one per row.
///
/// The first word is the protocol's marker type, see [`Field`](crate::codec::Field). A row has a
/// doc comment, a name, a kind and the fields in stored order, each with a doc comment. A record
/// without fields is a unit struct. Every record is `Clone`, `Debug`, `PartialEq` and `Eq`; add
/// `#[derive(Copy)]` where the fields permit it. These clauses may follow, in this order:
///
/// | clause | effect |
/// |---|---|
/// | `shows(a, b)` | `Debug` prints these fields only |
/// | `lends(Name)` | declares a private struct `Name`: the fields, borrowed, for `encode_as` |
/// | `check(path)` | decoding calls `path`, which returns the record or the violated invariant |
#[macro_export]
macro_rules! record {
    (@declare [$($meta:tt)+] $name:ident) => {
        $($meta)+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;
    };
    (@declare [$($meta:tt)+] $name:ident { $($fields:tt)+ }) => {
        $($meta)+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($fields)+ }
    };
    (@declare [$($meta:tt)+] $name:ident { $($fields:tt)+ } shows($($shown:ident),*)) => {
        $($meta)+
        #[derive(Clone, PartialEq, Eq)]
        pub struct $name { $($fields)+ }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($shown), &self.$shown))*
                    .finish_non_exhaustive()
            }
        }
    };
    (@lend $protocol:ty, { $($fields:tt)* }) => {};
    (@lend $protocol:ty, $lent:ident { $($field:ident: $type:ty),+ }) => {
        /// The same fields, borrowed.
        struct $lent<'a> { $($field: &'a $type),+ }

        impl $crate::codec::CanonicalBytes for $lent<'_> {
            fn write_canonical<S: $crate::codec::CanonicalSink + ?Sized>(&self, sink: &mut S) {
                $(<$type as $crate::codec::Field<$protocol>>::put(self.$field, sink);)+
            }
        }
    };
    ($protocol:ty: $(
        $(#[$meta:meta])+
        $name:ident: RecordKind::$kind:ident
        $({ $($(#[$field_meta:meta])+ $field:ident: $type:ty),+ $(,)? })?
        $(shows($($shown:ident),*))?
        $(lends($lent:ident))?
        $(check($check:path))?
    )+) => {$(
        $crate::record! {
            @declare [$(#[$meta])+] $name
            $({ $($(#[$field_meta])+ pub $field: $type),+ })?
            $(shows($($shown),*))?
        }
        $crate::record! { @lend $protocol, $($lent)? { $($($field: $type),+)? } }

        impl $crate::codec::Record for $name {
            const KIND: $crate::codec::RecordKind = $crate::codec::RecordKind::$kind;
        }

        #[allow(unused_variables, reason = "a record may have no fields")]
        impl $crate::codec::CanonicalBytes for $name {
            fn write_canonical<S: $crate::codec::CanonicalSink + ?Sized>(&self, sink: &mut S) {
                let Self { $($($field),+)? } = self;
                $($(<$type as $crate::codec::Field<$protocol>>::put($field, sink);)+)?
            }
        }

        #[allow(unused_variables, reason = "a record may have no fields")]
        impl $crate::codec::ReadFields for $name {
            fn read_fields(
                reader: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                let record = Self {$($(
                    $field: <$type as $crate::codec::Field<$protocol>>::get(
                        reader,
                        stringify!($field),
                    )?
                ),+)?};
                $(let record = reader.sound($check(record))?;)?
                Ok(record)
            }
        }
    )+};
}

/// Implements [`Field`](crate::codec::Field) for structs: their fields in stored order.
#[macro_export]
macro_rules! fields {
    ($protocol:ty: $($name:ident { $($field:ident: $type:ty),+ $(,)? })+) => {$(
        impl $crate::codec::Field<$protocol> for $name {
            fn put<S: $crate::codec::CanonicalSink + ?Sized>(&self, sink: &mut S) {
                let Self { $($field),+ } = self;
                $(<$type as $crate::codec::Field<$protocol>>::put($field, sink);)+
            }

            fn get(
                reader: &mut $crate::codec::Reader<'_>,
                _name: &'static str,
            ) -> Result<Self, $crate::codec::DecodeError> {
                Ok(Self {$(
                    $field: <$type as $crate::codec::Field<$protocol>>::get(
                        reader,
                        stringify!($field),
                    )?
                ),+})
            }
        }
    )+};
}
