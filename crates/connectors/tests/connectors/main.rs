//! Connectors: lines of files, files of trees, objects of stores.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that panics is a test that fails"
)]

#[path = "../checks/mod.rs"]
mod checks;
mod lines;
mod listing_server;
mod objects;
mod redaction;
mod support;
mod tree;
