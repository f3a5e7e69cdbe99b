//! The cluster protocol: a fixed number of shards, spread over nodes that come and go.
//!
//! `docs/placement.md` teaches it from nothing. This crate is pure: it reads no clock, no file and
//! no socket, and the same arguments give the same result on every machine. Its driver
//! stores what it says, and compares what it read in the same commit.
//!
//! | module | what it holds |
//! |---|---|
//! | [`ObjectId`], [`Sharding`] | from the id of an object to its shard |
//! | [`ShardMap`] | where shards should be (the leader's word) and are (the nodes' claims) |
//! | [`ops`] | who may claim, release, move, pin, freeze and lead, with a reason for each refusal |
//! | [`plan()`] | where shards should be next, with a reason for each move |
//! | [`RoutingTable`] | where a call goes, or what to do while it has nowhere to go |
//! | [`ShardDuties`], [`Handover`] | what a node has to do about its shards |
//! | [`Readiness`], [`DrainProgress`] | how far a cluster and a drain are |
//! | [`seed_format`] | the text in which existing clusters store all this |
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
//! let life = Incarnation::from_raw(1);
//! let addresses = [NodeAddress::parse("10.0.0.5:47001")?, NodeAddress::parse("10.0.0.6:47001")?];
//! let nodes = addresses.map(|address| Member::new(address, life));
//! let members = Membership::try_new(nodes, LogicalTime::ZERO)?;
//! let mut map = ShardMap::new(config.sharding.num_shards);
//!
//! // The leader decides where shards should be, once the nodes have been the same for a while …
//! let now = LogicalTime::from_millis(10_000);
//! let (loads, observations) = (None, &LeaderObservations::default());
//! let members = &members;
//! let input = PlanInput { map: &map, members, loads, config: &config, now, observations };
//! let decided = plan(&input);
//! assert_eq!(decided.moves[1].to_string(), "shard 1 goes to 10.0.0.6:47001: it has no node yet");
//! map.apply(&decided.update(&map, now).expect("shards were placed"))?;
//!
//! // … a node claims what it should have …
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
