//! The exhaustive check: every state of a small world.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod canonical;
mod defects;
mod map;
mod small;
