//! Properties that hold for any text.
//!
//! The property tests and the fuzz targets call the same functions.

pub(crate) mod redaction;
