//! Why an operation did not do what it was asked to.
//!
//! There are three families. A *refusal* is the protocol saying no: it depends on nothing but the
//! records and the request, and asking again gives the same answer until they change. An
//! *infrastructure* error ([`InfraError`]) is the store's or the network's, and its class says
//! whether the operation may have happened. *Resource exhaustion* is a bound that was reached;
//! nothing changed.
//!
//! Each refusal is a type of its own in [`reason`], documented and worded once. Each operation has
//! an enum of the refusals it may give on some backend, so that a caller's `match` needs no arm for
//! those of others. Every such enum converts into [`CoordError`], which has them all, and back.
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
