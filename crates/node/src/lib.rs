//! Nodes that serve the shards of a cluster, gates that route calls to them, and their objects.
//!
//! `docs/nodes.md` explains it. A service is one or more [`ObjectType`]s. A [`Node`] joins a
//! cluster, claims its shards, serves their objects, and hands shards over when their target
//! changes. A [`Gate`] owns nothing: it routes each call to the node that holds the object's shard,
//! and holds the call while the shard moves.
//!
//! | item | meaning |
//! |---|---|
//! | [`ObjectType`], [`CallContext`] | the trait that users implement, and the context of a call |
//! | [`Node`], [`Gate`] | the two kinds of processes |
//! | [`Transport`], [`LocalNetwork`] | how calls reach nodes, and the one within a process |
//! | [`world`] | sockets: gRPC between processes, gRPC and HTTP for clients |
//!
//! Only [`world`] uses a clock, tasks and sockets directly. Everything else uses an `Env` and a
//! [`Transport`], so a whole cluster can be simulated.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use shardwright_engine::TokioEnv;
//! use shardwright_cluster::{Cluster, ClusterName, ClusterOptions};
//! use shardwright_node::{
//!     Activation, Call, CallContext, Gate, GateOptions, LocalNetwork, Node, NodeOptions,
//!     ObjectError, ObjectKey, ObjectType, ObjectTypes,
//! };
//! use shardwright_placement::{ClusterConfig, NodeAddress, ObjectId};
//! use shardwright_store::MachineClock;
//! use shardwright_store::memory::MemoryStore;
//!
//! struct Greeter;
//!
//! impl ObjectType for Greeter {
//!     type Object = String;
//!
//!     async fn activate(&self, activation: &Activation) -> Result<String, ObjectError> {
//!         Ok(format!("I am {}", activation.object.id.as_str()))
//!     }
//!
//!     async fn handle(
//!         &self,
//!         greeting: &mut String,
//!         _context: &CallContext,
//!         method: &str,
//!         payload: Bytes,
//!     ) -> Result<Bytes, ObjectError> {
//!         match method {
//!             "greet" => Ok(format!("{greeting}, {}", String::from_utf8_lossy(&payload)).into()),
//!             _ => Err(ObjectError::refused("I only greet")),
//!         }
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let env = TokioEnv::current().expect("there is a runtime");
//! let mut config = ClusterConfig::default();
//! config.cluster_state_stability_duration_ms = 0;
//! let options = ClusterOptions::new(ClusterName::parse("greetings")?, config);
//! let store = MemoryStore::new(Arc::new(MachineClock));
//! let cluster = Cluster::open(store, env.clone(), options).await?;
//!
//! let network = Arc::new(LocalNetwork::new(env));
//! let types = ObjectTypes::new().with("Greeter", Greeter);
//! let address = NodeAddress::parse("node-1")?;
//! let (members, over, options) = (cluster.clone(), network.clone(), NodeOptions::default());
//! let node = Node::start(members, address.clone(), types, over, options).await?;
//! network.connect(address, node.service());
//!
//! let address = NodeAddress::parse("gate-1")?;
//! let gate = Gate::open(cluster, address, network, GateOptions::default()).await?;
//! let greeter = ObjectKey::new("Greeter", ObjectId::parse("bob")?);
//! // No shard is claimed yet: the call is held until the node has claimed the shard.
//! let answer = gate.call(Call::new(greeter, "greet", "alice", Duration::from_secs(10))).await?;
//! assert_eq!(answer, "I am bob, alice");
//! node.drain().await;
//! # Ok(())
//! # })
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

mod agent;
mod call;
mod context;
mod gate;
mod host;
mod load;
mod locks;
mod node;
mod notices;
mod object;
mod options;
mod per_shard;
mod quota;
mod readiness;
mod router;
mod serving;
mod starting;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod transport;
mod waiting;
pub mod world;

pub use call::{Call, CallKind, Chain, ObjectKey, Origin};

pub use context::CallContext;
pub use gate::Gate;
pub use node::{Node, NodeState, StartError};
pub use notices::{Activity, RetryNotice, RetryNotices};
pub use object::{Activation, Deactivation, ObjectError, ObjectType, ObjectTypes};
pub use options::{AutoLoad, GateOptions, HostOptions, NodeOptions};
pub use quota::Peer;
pub use readiness::Unready;
pub use shardwright_api::limits;
pub use starting::StartingService;
pub use transport::{BoxFuture, CallService, LocalNetwork, ShardLoad, Transport};
