//! Deterministic worlds around the run and cluster protocols, and the oracles that judge them.
//!
//! A world draws everything from one seed: tenants with workers and an operator, messages that are
//! lost, delayed, repeated and reordered, and clocks that jump. One director, in `director.rs`,
//! runs the actors against a subject: the in-memory reference ([`memory`]) or the stored
//! coordinator on a simulated store ([`stored`]). The [`oracle`]s compare each effect with a
//! [`model`] of all accepted requests. A [`sweep`] runs many seeds. It fails if an oracle is
//! violated, or if a required fault or answer did not occur. The module [`planted`] shows with
//! planted bugs that every oracle can fail.
//!
//! The module [`workers`] runs the real worker loop, and [`clusters`] runs nodes and gates.
#![forbid(unsafe_code)]

pub(crate) mod actor;
pub mod clusters;
pub mod coverage;
pub(crate) mod director;
pub mod fault;
pub mod keyspace;
pub mod memory;
pub mod model;
pub mod oracle;
pub mod planted;
pub mod report;
pub mod request;
pub mod rng;
mod runtime;
pub mod stored;
pub mod sweep;
pub mod tally;
pub mod trace;
pub mod visible;
pub mod workers;
