//! Nodes and gates.
#![forbid(unsafe_code)]

mod call;
mod chain;
mod context;
mod host;
mod load;
mod locks;
mod object;
mod options;
mod per_shard;
mod queue;
mod tenure;
mod transport;
mod wait;

pub use call::Call;
pub use chain::{Chain, ObjectKey};
pub use context::CallContext;
pub use host::ObjectHost;
pub use locks::{ShardLocks, ShardReadGuard, ShardWriteGuard};
pub use object::{Activation, Deactivation, ObjectError, ObjectType, ObjectTypes};
pub use options::{AutoLoad, GateOptions, HostOptions, NodeOptions};
pub use transport::{BoxFuture, CallService, Transport};
