//! Who and what: the identifiers, the fence and the time that every operation carries.

mod fence;
mod id;
mod tenant;
mod time;

pub use fence::{FenceEpoch, FenceEpochError};
pub use id::{OpId, RunId, ShardId, ShardKey, WorkerId};
pub use tenant::TenantId;
pub use time::LogicalTime;
