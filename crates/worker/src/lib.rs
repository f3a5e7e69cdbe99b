//! What works on the shards of a run.
//!
//! | module | what it holds |
//! |---|---|
//! | [`connector`] | sources of items in key order: trees, lines of files, object stores |
#![forbid(unsafe_code)]

pub mod connector;
