//! Properties that hold for any bytes.
//!
//! The property tests and the fuzz targets call the same functions.
#![allow(clippy::unwrap_used, reason = "a check that panics is a check that fails")]

pub(crate) mod cluster_key;
pub(crate) mod record;
#[path = "../../../engine/tests/support/record_checks.rs"]
pub(crate) mod record_checks;
