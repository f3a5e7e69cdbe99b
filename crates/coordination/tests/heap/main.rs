//! What the in-memory coordinator allocates. A binary of its own: the counter is its allocator.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod hot_path;
mod size;
