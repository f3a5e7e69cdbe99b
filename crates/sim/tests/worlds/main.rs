//! Simulated worlds: sweeps, determinism, planted bugs and the table of promises.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::duplicate_mod, reason = "both protocols' tests share the record checks")]

mod clusters;
mod determinism;
mod kinds;
mod map;
mod planted;
mod stored;
mod sweep;
mod workers;
