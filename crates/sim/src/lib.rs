//! A deterministic world around the run protocol, and the oracles that judge it.
//!
//! A [`world`] draws everything from one seed: tenants, workers with beliefs of their own, an
//! operator per tenant, a network that loses, delays, repeats and reorders, clocks that jump and
//! are set back. Its actors talk to a [`system`] through the protocol's traits. After every
//! request the [`oracle`]s hold what was answered and what is visible against a [`model`] of what
//! was accepted before. A [`sweep`] lives through many seeds and fails if anything was found, or
//! if anything that can happen did not. The module [`planted`] shows with bugs made on purpose that
//! every oracle can fail.
//!
//! The in-memory backend knows no uncertain commit. The module [`stored`] puts the real engine on a
//! simulated store and network, and has the same oracles judge what gets stored. The module
//! [`workers`] runs the real worker loop on top of that.
#![forbid(unsafe_code)]

pub mod clusters;
pub mod coverage;
pub mod fault;
mod ground;
pub mod keyspace;
pub mod model;
pub mod network;
pub mod oracle;
pub mod planted;
pub mod report;
pub mod request;
pub mod rng;
pub mod stored;
pub mod sweep;
pub mod system;
pub mod tally;
pub mod trace;
pub mod visible;
pub mod workers;
pub mod world;
