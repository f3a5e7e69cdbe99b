//! A named job: a run with a source, a handler and a location for results.
//!
//! | module | content |
//! |---|---|
//! | [`begin`] | finds or creates the run of a name, and checks that it is the requested one |
//! | [`description`] | is stored with the run, so that every process does the same work |
//! | [`output`] | the location of the results, and which run owns it |
//! | [`journal`] | the journal of each process, beside the results |
//! | [`conclude`] | writes the result file and the [receipt](receipt::Receipt) |
//! | [`preview`] | what a command would do, without any change |
//! | [`verify`] | recomputes the content of the receipt in another way, without shared code |
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "objects"),
    allow(unreachable_code, reason = "a type without values stands in for object stores")
)]

// The shared test support names the crate like other crates do.
#[cfg(test)]
extern crate self as shardwright_jobs;

mod agreement;
pub mod begin;
#[cfg(test)]
#[path = "../tests/checks/mod.rs"]
mod checks;
#[cfg(feature = "commands")]
pub mod command;
pub mod conclude;
pub mod description;
mod interface;
pub mod journal;
mod objects;
mod options;
pub mod output;
pub mod preview;
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

/// The tenant of all runs of the command line and the library.
pub const TENANT: TenantId = TenantId::from_bytes([0; TenantId::SIZE]);

/// TTL of the session of a process.
const SESSION: Duration = Duration::from_secs(10);

/// The run protocol on any store.
pub type Coordinator = StoredCoordinator;

/// Opens the coordinator of runs on the store at an address.
pub async fn open(address: &StoreAddress) -> anyhow::Result<Coordinator> {
    let keys = Keyspace::of_store(address, None);
    open_on(address.connect(None).await?, keys, address.is_shared()).await
}

/// Opens the coordinator of runs on a store. `is_shared` if other machines use it.
pub async fn open_on(
    store: AnyStore,
    keys: Keyspace,
    is_shared: bool,
) -> anyhow::Result<Coordinator> {
    let env = TokioEnv::current().context("not called on a tokio runtime")?;
    let config = if is_shared { EngineConfig::default() } else { EngineConfig::on_one_machine() };
    // Only `gc` deletes runs, together with the files that their results were built from.
    let retention = Retention::FOREVER;
    let config =
        EngineConfig { sessions: LeaseBinding::Session { ttl: SESSION }, retention, ..config };
    Ok(StoredCoordinator::open(store, env, keys, config).await?)
}
