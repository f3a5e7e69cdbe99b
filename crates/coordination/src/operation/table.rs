//! The list of all operations.

use std::fmt;

use shardwright_contracts::{
    CursorInput, OpId, Redacted, RunId, ShardId, ShardInput, ShardKey, SpecInput, SplitPart,
    WorkerId,
};

use super::bytes::ByteField;
use super::{Operation, RunTransition};
use crate::directory::{NameRunError, RunLabel, RunName};
use crate::error::{
    AcquireError, CheckpointError, ClaimError, CompleteError, CreateRunError, DeclineError,
    InfraError, ParkError, RegisterShardsError, ReleaseError, RenewError, RunQueryError,
    RunTransitionError, SplitReplaceError, SplitRequestError, SplitResidualError, UnparkError,
};
use crate::estimate::{HeldEstimate, WorkEstimate};
use crate::lease::Lease;
use crate::op_log::IdempotentOutcome;
use crate::ops::{SplitReplaceResult, SplitResidualResult};
use crate::progress::RunProgress;
use crate::record::{RunConfig, RunRecord};
use crate::restore::{HolderNotice, RenewResult, RestoredShardState};
use crate::status::ParkReason;
use crate::summary::{ShardFilter, ShardSummary};
use crate::traits::{ClaimHint, CreateRunWithShardsError};

/// Declares a struct and an [`Operation`] per row, and [`Request`] with a variant per row.
///
/// A row has the name of its type, its name, the fields, the byte fields, the output and the error.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $name:ident$(<$bytes:ident>)? $label:literal
        { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }
        $(bytes { $($(#[$part_doc:meta])* $part:ident: $part_type:ty),* $(,)? })?
        -> $output:ty, $error:ty;
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq)]
            pub struct $name$(<$bytes>)? {
                $($(#[$field_doc])* pub $field: $type,)*
                $($($(#[$part_doc])* pub $part: $part_type,)*)?
            }

            impl<B> Operation<B> for $name$(<$bytes>)? {
                const NAME: &'static str = $label;
                type Output = $output;
                type Error = $error;
            }

            impl<B> From<$name$(<$bytes>)?> for Request<B> {
                fn from(operation: $name$(<$bytes>)?) -> Self {
                    Self::$name(operation)
                }
            }

            /// Bytes are shown as their lengths.
            impl$(<$bytes: AsRef<[u8]>>)? fmt::Debug for $name$(<$bytes>)? {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    let mut shown = f.debug_struct(stringify!($name));
                    $(shown.field(stringify!($field), &self.$field);)*
                    $($(
                        let part = self.$part.change(&mut |bytes: &B| Redacted(bytes.as_ref()));
                        shown.field(stringify!($part), &part);
                    )*)?
                    shown.finish()
                }
            }
        )*

        /// A request to a backend: one variant per operation.
        #[derive(Clone, PartialEq, Eq)]
        pub enum Request<B> {
            $($(#[$doc])* $name($name$(<$bytes>)?),)*
        }

        impl<B> Request<B> {
            /// The names of all operations, in the order of the table.
            pub const NAMES: &'static [&'static str] = &[$($label,)*];

            /// The name of the operation.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $label,)*
                }
            }

            /// The same request with other bytes, each made from one of these by `change`.
            pub fn map<'b, C>(&'b self, mut change: impl FnMut(&'b B) -> C) -> Request<C> {
                let _ = &mut change;
                match self {
                    $(Self::$name($name { $($field,)* $($($part,)*)? }) => Request::$name($name {
                        $($field: *$field,)*
                        $($($part: $part.change(&mut change),)*)?
                    }),)*
                }
            }
        }

        impl<B: AsRef<[u8]>> fmt::Debug for Request<B> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name(operation) => operation.fmt(f),)*
                }
            }
        }
    };
}

impl<B: AsRef<[u8]>> Request<B> {
    /// The same request, borrowed.
    pub fn as_ref(&self) -> Request<&[u8]> {
        self.map(AsRef::as_ref)
    }

    /// The same request with its own bytes.
    #[must_use]
    pub fn to_owned(&self) -> Request<Vec<u8>> {
        self.map(|bytes| bytes.as_ref().to_vec())
    }
}

operations! {
    /// Give a shard to a worker.
    Acquire "acquire_and_restore" {
        /// The shard.
        key: ShardKey,
        /// The worker that becomes its owner.
        worker: WorkerId,
    } -> RestoredShardState, AcquireError;

    /// Extend a lease.
    Renew "renew" {
        /// The lease.
        lease: Lease,
    } -> RenewResult, RenewError;

    /// Advance a shard's cursor. A replay comes without a notice.
    Checkpoint<B> "checkpoint" {
        /// The right to change the shard.
        lease: Lease,
        /// The operation id.
        op: OpId,
    } bytes {
        /// How far the shard is processed.
        cursor: CursorInput<B>,
    } -> IdempotentOutcome<Option<HolderNotice>>, CheckpointError;

    /// Finish a shard.
    Complete<B> "complete" {
        /// The right to change the shard.
        lease: Lease,
        /// The operation id.
        op: OpId,
    } bytes {
        /// The final cursor.
        cursor: CursorInput<B>,
    } -> IdempotentOutcome<()>, CompleteError;

    /// Stop a shard until an operator unparks it.
    ParkShard<B> "park_shard" {
        /// The right to change the shard.
        lease: Lease,
        /// Why the shard is parked.
        reason: ParkReason,
        /// The operation id.
        op: OpId,
    } bytes {
        /// Details for the operator.
        detail: B,
    } -> IdempotentOutcome<()>, ParkError;

    /// Release a lease.
    Release "release" {
        /// The lease.
        lease: Lease,
        /// The operation id.
        op: OpId,
    } -> IdempotentOutcome<()>, ReleaseError;

    /// Replace a shard by children that tile its range.
    SplitReplace<B> "split_replace" {
        /// The right to change the shard.
        lease: Lease,
        /// The operation id.
        op: OpId,
    } bytes {
        /// The children, in any order.
        parts: Vec<SplitPart<B>>,
    } -> IdempotentOutcome<SplitReplaceResult>, SplitReplaceError;

    /// Split the right part of a shard off as a new shard.
    SplitResidual<B> "split_residual" {
        /// The right to change the shard.
        lease: Lease,
        /// The operation id.
        op: OpId,
    } bytes {
        /// What the shard keeps.
        narrowed: SpecInput<B>,
        /// What the new shard gets.
        residual: SpecInput<B>,
    } -> IdempotentOutcome<SplitResidualResult>, SplitResidualError;

    /// Request a part of a shard from its holder.
    RequestSplit "request_split" {
        /// The shard.
        key: ShardKey,
        /// The worker that requests a part.
        requester: WorkerId,
        /// How long the request stays open, in milliseconds.
        patience_ms: u64,
    } -> (), SplitRequestError;

    /// Decline split requests for a while.
    DeclineSplit "decline_split" {
        /// The right to change the shard.
        lease: Lease,
        /// How long further requests are refused, in milliseconds.
        pause_ms: u64,
    } -> (), DeclineError;

    /// Create a run that waits for its shards.
    CreateRun "create_run" {
        /// Its id.
        run: RunId,
        /// Its configuration.
        config: RunConfig,
    } -> (), CreateRunError;

    /// Register the shards of a run and start it.
    RegisterShards<B> "register_shards" {
        /// The run.
        run: RunId,
        /// The operation id.
        op: OpId,
    } bytes {
        /// The manifest, in any order.
        shards: Vec<ShardInput<B>>,
    } -> IdempotentOutcome<()>, RegisterShardsError;

    /// Create a run and start it with its shards, or do neither.
    CreateRunWithShards<B> "create_run_with_shards" {
        /// The run.
        run: RunId,
        /// Its configuration.
        config: RunConfig,
        /// The operation id.
        op: OpId,
    } bytes {
        /// The manifest, in any order.
        shards: Vec<ShardInput<B>>,
    } -> IdempotentOutcome<()>, CreateRunWithShardsError;

    /// Read a run's record.
    GetRun "get_run" {
        /// The run.
        run: RunId,
    } -> RunRecord, RunQueryError;

    /// Count a run's shards.
    GetRunProgress "get_run_progress" {
        /// The run.
        run: RunId,
    } -> RunProgress, RunQueryError;

    /// List a run's shards in key order.
    ListShards "list_shards" {
        /// The run.
        run: RunId,
        /// The filter.
        filter: ShardFilter,
    } -> Vec<ShardSummary>, RunQueryError;

    /// End, pause or resume a run.
    ChangeRun "change_run" {
        /// The run.
        run: RunId,
        /// The transition.
        change: RunTransition,
        /// The operation id.
        op: OpId,
    } -> IdempotentOutcome<()>, RunTransitionError;

    /// Make a parked shard active again.
    UnparkShard "unpark_shard" {
        /// The shard.
        key: ShardKey,
        /// The operation id.
        op: OpId,
    } -> IdempotentOutcome<()>, UnparkError;

    /// List shards that a worker may be able to acquire.
    CollectClaimCandidates "collect_claim_candidates" {
        /// The run.
        run: RunId,
        /// The worker. Different workers get different orders.
        worker: WorkerId,
        /// Maximum number of shards.
        limit: usize,
    } -> (Vec<ShardId>, ClaimHint), RunQueryError;

    /// Give any available shard of a run to a worker.
    Claim "claim_next_available" {
        /// The run.
        run: RunId,
        /// The worker that becomes the owner.
        worker: WorkerId,
    } -> RestoredShardState, ClaimError;

    /// Look up the run to which a name points.
    FindRun "find_run" {
        /// The name.
        name: RunName,
    } -> Option<RunId>, InfraError;

    /// Point a name to a new run, unless it points elsewhere by now.
    NameRun<B> "name_run" {
        /// The new run.
        run: RunId,
        /// The name.
        name: RunName,
        /// The run to which the name points until then.
        instead_of: Option<RunId>,
    } bytes {
        /// The description of the run.
        description: B,
    } -> RunId, NameRunError;

    /// Read the label of a named run.
    LabelOf "label_of" {
        /// The run.
        run: RunId,
    } -> Option<RunLabel>, InfraError;

    /// List the named runs in the order of ids.
    ListLabels "list_labels" {} -> Vec<(RunId, RunLabel)>, InfraError;

    /// Publish a holder's estimate of the work that is left.
    PublishEstimate "publish_estimate" {
        /// The holder's lease.
        lease: Lease,
        /// The estimate.
        estimate: WorkEstimate,
    } -> (), InfraError;

    /// List the estimates of a run's holders, in the order of shards.
    ListEstimates "list_estimates" {
        /// The run.
        run: RunId,
    } -> Vec<HeldEstimate>, InfraError;
}
