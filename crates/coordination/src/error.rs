//! Why an operation failed.
//!
//! | family | meaning |
//! |---|---|
//! | refusal | The protocol rejects the request. Only the records and the request decide. |
//! | [`InfraError`] | The store or the network failed. Its class states what may have happened. |
//! | exhaustion | A limit was reached. Nothing changed. |
//!
//! Each refusal is a type in [`reason`], documented and worded once. Each operation has an enum of
//! its possible refusals, so a caller's `match` needs no other arms. Every such enum converts into
//! [`CoordError`], which has all refusals, and back.
//!
//! Messages never contain key bytes, another tenant's id, a worker's id or a payload fingerprint.

mod operation;
pub mod reason;
#[cfg(test)]
pub(crate) mod samples;

pub use operation::{
    AcquireError, CheckpointError, ClaimError, CompleteError, CoordError, CreateRunError,
    CreateRunWithShardsError, DeclineError, ParkError, RegisterShardsError, ReleaseError,
    RenewError, RunQueryError, RunTransitionError, SplitError, SplitReplaceError,
    SplitRequestError, SplitResidualError, UnparkError,
};
pub use shardwright_contracts::InfraError;

pub use operation::GuardError;
