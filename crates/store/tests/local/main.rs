//! The stores of one machine: in memory and in a folder.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics is a test that fails"
)]

#[cfg(feature = "conformance")]
mod file_conformance;
mod file_damage;
mod file_processes;
mod file_torture;
#[cfg(feature = "conformance")]
#[path = "../harness/mod.rs"]
mod harness;
#[cfg(feature = "conformance")]
mod memory_conformance;
mod processes;
