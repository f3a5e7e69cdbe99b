//! Exhaustive check of the run protocol: every world that a few workers, keys and ticks can reach,
//! through the operations that ship.
//!
//! A [`World`] holds real records of a run and its shards, with an op log of [`LOG`] entries
//! instead of sixteen. It also holds which worker believes to own which shard, and the requests in
//! flight, which may arrive late, twice or never. An [`Action`] is a possible next step. A
//! [`Model`] executes it by calling `shardwright_coordination::ops`. This crate contains no rule of
//! the protocol. It judges each step by the [`Rule`]s, which must always hold. Each step also
//! yields [`Situation`]s, all of which must occur, so that no rule holds vacuously.
//!
//! Workers behave as badly as possible. The last owner of a shard keeps sending every request, with
//! or without a lease. A crash is a worker that stops sending. Old leases are not part of the
//! state, because any worker may present an old fence at any time ([`Probe`]). Time may stand still
//! for any period.
//!
//! [`Search`] visits every world, level by level. Worlds that differ only in data that no future
//! answer depends on are equal, as [`canonical`] defines. A broken rule is reported with a shortest
//! path. To show that rules can break, each [`Defect`] removes one check and names the rule that
//! must then fail.
//!
//! The search uses no library. Rules and situations are about steps, not states, which keeps
//! history out of the state. Levels make the depth exact and counterexamples shortest. Twenty
//! million worlds need no stored paths.
//!
//! Not modelled: registration of shards and all steps before it, split requests and claiming
//! (neither changes ownership), fence floors, oversized input, clocks that go back, and operators'
//! retries after the next step. The search assumes no fairness, so it cannot show that a healed run
//! completes.

#![forbid(unsafe_code)]

mod action;
mod bounds;
pub mod canonical;
mod defect;
mod draft;
mod executor;
mod judge;
mod listed;
mod model;
mod operator;
mod property;
mod request;
mod search;
mod visited;
mod witness;
mod world;

pub use action::{Action, Change, Probe};
pub use bounds::{Bounds, KEYS_MAX, Pinned, REQUESTS_MAX, SHARDS_MAX, WORKERS_MAX};
pub use defect::Defect;
pub use model::{Model, Step};
pub use property::{Rule, Rules, Situation, Situations};
pub use request::{Command, Effect, Key, Memory, Payload, Plan, Request};
pub use search::{Counterexample, Report, Search};
pub use world::{Shard, World};

/// Capacity of a shard's op log in the model.
pub const LOG: usize = 2;
