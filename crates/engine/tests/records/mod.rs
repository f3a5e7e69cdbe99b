//! Records of every kind: one with a value in each field, the largest there can be, and any.
#![allow(clippy::unwrap_used, reason = "an example that panics is a test that fails")]

pub(crate) mod any;
pub(crate) mod examples;
