//! A named job: a run with a source, a handler and a place for results.
//!
//! [`begin`] finds the run of a name or makes it, and decides whether it is the one that was
//! requested. [`description`] is stored with it, so that a process that joins or retries does the
//! same work. [`output`] is the place of its results and records which run owns it, [`journal`]
//! is the journal of each process beside them, [`conclude`] writes the result file and the
//! [receipt](receipt::Receipt). [`verify`] recomputes what the receipt states by another route and
//! shares no code with it.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "objects"),
    allow(unreachable_code, reason = "a type without values stands in for object stores")
)]

// The shared set-up of tests names the crate as other crates do.
#[cfg(test)]
extern crate self as shardwright_jobs;

mod agreement;
pub mod begin;
#[cfg(feature = "commands")]
pub mod command;
pub mod conclude;
pub mod description;
pub mod journal;
mod objects;
mod options;
pub mod output;
pub mod readable;
pub mod receipt;
mod sink;
pub mod source;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
#[allow(dead_code, reason = "each crate uses its own part")]
mod testing;
pub mod verify;

use std::time::Duration;

use anyhow::Context as _;
use shardwright_contracts::TenantId;
use shardwright_engine::TokioEnv;
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::{EngineConfig, LeaseBinding, Retention, StoredCoordinator};
use shardwright_store::{AnyStore, StoreAddress};

pub use options::JobOptions;

/// The tenant of all runs: a command line, or a library in one program, has one user.
pub const TENANT: TenantId = TenantId::from_bytes([0; TenantId::SIZE]);

/// TTL of the session of a process.
const SESSION: Duration = Duration::from_secs(10);

/// The run protocol on any store.
pub type Coordinator = StoredCoordinator;

/// Opens the coordinator of runs on the store at an address.
pub async fn open(address: &StoreAddress) -> anyhow::Result<Coordinator> {
    let keys = if address.is_shared() { Keyspace::bare() } else { Keyspace::default() };
    open_on(address.connect(None).await?, keys, address.is_shared()).await
}

/// Opens the coordinator of runs on a store that other machines share or not.
pub async fn open_on(
    store: AnyStore,
    keys: Keyspace,
    is_shared: bool,
) -> anyhow::Result<Coordinator> {
    let env = TokioEnv::current().context("there is no runtime")?;
    let config = if is_shared { EngineConfig::default() } else { EngineConfig::on_one_machine() };
    // Only `gc` deletes runs, together with the files that their results were built from.
    let retention = Retention::FOREVER;
    let config =
        EngineConfig { sessions: LeaseBinding::Session { ttl: SESSION }, retention, ..config };
    Ok(StoredCoordinator::open(store, env, keys, config).await?)
}
