//! Connectors: lines of files, files of trees, objects of stores.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that panics is a test that fails"
)]

mod lines;
mod listing_server;
mod objects;
mod support;
mod tree;
