//! The run protocol, checked exhaustively: every world that a few workers, keys and ticks can
//! lead to, by the very operations that ship.
//!
//! This is the specification as code. A [`World`] holds real records of a run and its shards,
//! with an op log of [`LOG`] entries instead of sixteen; who believes to own which shard; and the
//! requests that are under way and may arrive late, twice or never. An [`Action`] is anything
//! that can happen next. A [`Model`] carries it out by calling `shardwright_coordination::ops`;
//! no rule of the protocol is written here. What *is* written here is what must come of it: each
//! step is judged by the [`Rule`]s, which must always hold, and yields [`Sight`]s, all of which
//! must occur, so that no rule holds for want of an occasion.
//!
//! Workers are as bad as can be. Whoever was granted a shard last goes on asking for everything
//! that can be asked, lease or no lease; a crash is a worker that stops asking. Leases from
//! before are not part of the state, because anybody may show an old fence at any time
//! ([`Probe`]). Time stands still as long as it likes.
//!
//! [`Search`] visits every world there is, level by level. Worlds that differ only in what no
//! future answer can depend on count as one; [`canonical`] says what that is. A broken rule is
//! reported with the shortest way that leads there. To show that rules can break, each
//! [`Defect`] takes one check away and names the rule that must then fail.
//!
//! The search is our own rather than a library's. Rules and sights here are about steps, not
//! states, which keeps history out of the state; a level at a time makes depth exact and
//! counterexamples shortest; and no path has to be carried along with twenty million worlds.
//!
//! What is left out: registering shards and what happens before, split requests and claiming
//! (neither changes who owns what), fence floors, sizes beyond limits, clocks that go back, and
//! retries of an operator's request later than the next moment. That a healed world finishes is a
//! matter of fairness, which this search does not know.

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
pub use property::{Rule, Rules, Sight, Sights};
pub use request::{Ask, Effect, Key, Memory, Plan, Request, Wording};
pub use search::{Counterexample, Report, Search};
pub use world::{Shard, World};

/// How many operations a shard remembers here.
pub const LOG: usize = 2;
