//! What must hold for any bytes at all, however they came about.
//!
//! The property tests and the fuzz targets call the same functions.
#![allow(clippy::unwrap_used, reason = "a check that panics is a check that fails")]

pub(crate) mod record;
pub(crate) mod store_key;
