//! One byte form per value, and the hash domains that digest it.
//!
//! Two values that mean the same thing write the same bytes, and two that differ write different
//! ones, so a digest of the bytes stands for the value. The framing is fixed: integers are
//! little-endian, byte strings carry their length, an optional value carries a presence byte and
//! an enum is one byte.

mod domain;
mod framing;
#[cfg(test)]
mod golden;

pub use domain::{Domain, DomainHasher};
pub use framing::{CanonicalBytes, CanonicalSink};
