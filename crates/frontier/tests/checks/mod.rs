//! Properties of arbitrary bytes.
//!
//! The property tests and the fuzz targets call the same functions.
#![allow(clippy::indexing_slicing, reason = "a check that panics is a check that fails")]

pub(crate) mod arithmetic;
pub(crate) mod composite;
pub(crate) mod wire;
