//! The commands that run, scan, show, verify and collect.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics is a test that fails"
)]

mod beginning;
mod collecting;
mod documents;
mod foreign_files;
mod format;
mod killing;
mod machines;
mod objects;
mod outliving;
mod persistent;
mod placeholders;
mod proof;
mod resuming;
mod running;
mod s3;
mod scanning;
mod sharing;
mod showing;
mod sources;
mod stopping;
mod stores;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod support;
mod trust;
mod unread;
