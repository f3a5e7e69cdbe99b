//! Properties that hold for any bytes.
//!
//! The property tests and the fuzz targets call the same functions.

pub(crate) mod token;
