//! Simulated worlds: sweeps, determinism and the map of promises.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod clusters;
mod determinism;
mod kinds;
mod map;
mod planted;
mod stored;
mod sweep;
mod workers;
