//! Nodes and gates.
#![forbid(unsafe_code)]

mod agent;
mod call;
mod chain;
mod context;
mod gate;
mod host;
mod load;
mod local;
mod locks;
mod network;
mod node;
mod object;
mod options;
mod per_shard;
#[cfg(feature = "planted-bugs")]
pub mod planted;
#[cfg(not(feature = "planted-bugs"))]
mod planted;
mod queue;
mod router;
mod tenure;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod transport;
mod wait;
pub mod world;

pub use call::Call;
pub use chain::{Chain, ObjectKey};
pub use context::CallContext;
pub use gate::Gate;
pub use host::ObjectHost;
pub use locks::{ShardLocks, ShardReadGuard, ShardWriteGuard};
pub use network::LocalNetwork;
pub use node::{Node, NodeState};
pub use object::{Activation, Deactivation, ObjectError, ObjectType, ObjectTypes};
pub use options::{AutoLoad, GateOptions, HostOptions, NodeOptions};
pub use transport::{BoxFuture, CallService, ShardLoad, Transport};
