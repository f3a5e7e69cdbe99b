//! The cluster protocol: a fixed number of shards on a changing set of nodes.
//!
//! `docs/placement.md` explains it from the beginning. This crate is pure: it reads no clock, no
//! file and no socket, and the same arguments give the same result on every machine. Its driver
//! stores the results and compares what it read in the same commit.
//!
//! | module | contents |
//! |---|---|
//! | [`ObjectId`], [`Sharding`] | from the id of an object to its shard |
//! | [`ShardMap`] | the leader's targets and the nodes' claims |
//! | [`ops`] | the rules of claims, targets and leaders, with a reason for each refusal |
//! | [`plan()`] | the next targets, with a reason for each move |
//! | [`RoutingTable`] | the destination of a call, or what to do without one |
//! | [`ShardDuties`], [`Handover`] | what a node has to do for its shards |
//! | [`Readiness`], [`DrainProgress`] | the progress of a cluster and of a drain |
//! | [`seed_format`] | the stored text format of existing clusters |
//! | [`testing`] | helpers for tests of services that run on a cluster |
//!
//! ```
//! use shardwright_contracts::{FenceEpoch, LogicalTime};
//! use shardwright_placement::{
//!     ClusterConfig, Incarnation, Member, Membership, NodeAddress, PlanInput, RoutingTable,
//!     ShardMap, LeaderObservations, ops, plan,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ClusterConfig::default();
//! let first = Incarnation::from_raw(1);
//! let addresses = [NodeAddress::parse("10.0.0.5:47001")?, NodeAddress::parse("10.0.0.6:47001")?];
//! let nodes = addresses.map(|address| Member::new(address, first));
//! let members = Membership::try_new(nodes, LogicalTime::ZERO)?;
//! let mut map = ShardMap::new(config.sharding.num_shards);
//!
//! // The leader plans targets once the membership is stable …
//! let now = LogicalTime::from_millis(10_000);
//! let (loads, observations) = (None, &LeaderObservations::default());
//! let members = &members;
//! let input = PlanInput { map: &map, members, loads, config: &config, now, observations };
//! let decided = plan(&input);
//! assert_eq!(decided.moves[1].to_string(), "shard 1 moves to 10.0.0.6:47001: it has no node yet");
//! map.apply(&decided.update(&map, now).expect("shards were placed"))?;
//!
//! // … a node claims its shard …
//! let shard = config.sharding.hashed("user-12345");
//! let target = map.info(shard)?.target.expect("it was placed").clone();
//! let holder = &members.get(target.as_str()).expect("targets are members").holder;
//! let claim = ops::claim(map.info(shard)?, holder, members, FenceEpoch::INITIAL)?;
//! map.learn_claim(shard, &claim)?;
//!
//! // … and calls go there.
//! let table = RoutingTable::new(&map, members, None, &config);
//! let explanation = table.explain("user-12345")?.to_string();
//! assert!(explanation.starts_with("the id hashes to shard 1392 of 8192 by fnv1a32"));
//! # Ok(())
//! # }
//! ```
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

mod address;
mod config;
mod flags;
mod handover;
pub mod limits;
mod member;
mod node_names;
mod object_id;
mod observations;
pub mod ops;
mod plan;
mod routing;
pub mod seed_format;
mod shard_map;
mod sharding;
mod target;
pub mod testing;

pub use address::{NodeAddress, NodeAddressError};
pub use config::{ClusterConfig, ConfigError, LoadBands, PinPolicy};
pub use flags::{Flag, FlagError, Flags};
pub use handover::{
    DrainProgress, Handover, HandoverAttempts, HandoverStep, HandoverTimeouts, Readiness,
    ShardDuties,
};
pub use member::{DuplicateMember, Incarnation, Member, Membership, NodeInstance, NodeInstanceRef};
pub use object_id::{ObjectId, ObjectIdError, ObjectIdRef, ObjectLocation};
pub use observations::LeaderObservations;
pub use plan::{Move, MoveReason, Plan, PlanInput, PlanNote, plan};
pub use routing::{Explanation, Retry, Route, RouteError, RoutingTable};
pub use shard_map::{Claim, MapChange, ShardInfo, ShardMap, UpdateError};
pub use sharding::{
    JoinRefused, ShardCount, ShardCountError, ShardHash, ShardOutOfRange, Sharding,
};
pub use target::{
    Target, TargetChange, TargetChunks, TargetHeader, TargetSince, TargetUpdate, TargetVersion,
};
