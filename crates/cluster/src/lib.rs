//! The cluster protocol over any store.
//!
//! [`placement`](shardwright_placement) has the rules: who may claim, release, move, pin and lead,
//! and where shards should be. This crate stores the decisions. Each commit compares what its
//! decision was based on.
//!
//! | who | has | can |
//! |---|---|---|
//! | any process | [`Cluster`] | see the cluster by a [`ClusterView`], move, pin, drain, freeze |
//! | a gate | [`GateMembership`] | be seen by others |
//! | a node | [`NodeMembership`] | claim and release shards, lead |
//!
//! A membership lasts as long as a session of the store. [`Serving`] is the deadline until which a
//! member may serve without reaching the store. Until then no other node can have claimed its
//! shards.

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

pub mod keys;
pub mod records;

mod admin;
mod claim;
mod deletion;
mod error;
mod existence;
mod follow;
mod format;
mod handle;
mod lead;
mod membership;
mod options;
mod release;
mod session;
mod shared;
mod state;
mod targets;
mod view;

pub use error::{
    AdminError, ClusterCreateError, ClusterDeleteError, ClusterOpenError, JoinError, LeadError,
    LeaderStepError, NotReady, ShardClaimError, ShardReleaseError,
};
pub use format::{Quarantined, Unreadable};
pub use handle::Cluster;
pub use keys::{ClusterKey, ClusterName, ClusterNameError};
pub use lead::LeaderStep;
pub use membership::{GateMembership, NodeMembership};
pub use options::{
    ClusterOptions, FindError, FoundCluster, Layout, OptionsError, TextShards, find_cluster,
    wait_for_cluster,
};
pub use release::ShardRelease;
pub use session::Serving;
pub use shardwright_contracts::InfraError;
pub use view::{Changed, ClusterStatus, ClusterView, NodeStatus};
