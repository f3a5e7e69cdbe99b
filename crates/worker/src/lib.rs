//! The worker loop.
//!
//! A [`Worker`] claims a shard, reads its items from a [`connector`] in key order, runs a
//! [`Handler`] on each, makes the results durable in a [`sink`], and moves the shard's cursor over
//! completed items. It renews its leases, splits slow shards for idle workers, parks failing items,
//! and releases everything when it is stopped.
//!
//! | module | content |
//! |---|---|
//! | [`connector`] | the trait of sources, and their items |
//! | [`handler`] | the trait of handlers |
//! | [`sink`], [`extent`] | where results go, and how a cursor names them |
//!
//! The crate does no IO. `shardwright-connectors` reads sources and stores results, and
//! `shardwright-process` runs programs.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests may use the real world"
    )
)]

pub mod connector;
pub mod extent;
pub mod handler;
pub mod sink;

mod attempt;
mod background;
mod builder;
mod erased;
mod error;
mod event;
mod hold;
mod options;
mod pace;
mod signals;
mod slot;
mod straggler;
mod tracker;
mod turns;
mod worker;

pub use builder::{CompleteWorkerBuilder, WorkerBuilder};
pub use error::WorkerError;
pub use event::{Observer, WorkerEvent};
pub use handler::{Handler, ItemFailure, each};
pub use options::{RetryPolicy, WorkerOptions};
pub use signals::StopSignal;
pub use worker::{RunOutcome, Worker, create_run, first_shards};
