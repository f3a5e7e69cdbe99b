//! Keys, ranges and metadata as bytes.
#![allow(clippy::indexing_slicing, reason = "a test that panics is a test that fails")]

#[path = "../checks/mod.rs"]
mod checks;
mod oversized_prefix;
mod properties;
