//! What a sweep must have seen, so that no oracle and no refusal goes untried.
//!
//! The tables say of every variant of every operation's error whether it must have been seen, or
//! why it never can be. They are matched without a wildcard: a new variant does not compile until
//! somebody has said which.
//!
//! One variant the in-memory backend never gives: it has no machinery below that could fail. The
//! world makes such failures up between sender and system, so `BackendError` says what senders
//! were told, not what the system did. They are counted and shown apart from refusals; the worlds
//! around a store have real ones.

use shardwright_contracts::{ManifestValidationError, SplitValidationError};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{
    AcquireError, CheckpointError, ClaimError, CompleteError, CoordError, CreateRunError,
    DeclineError, InfraError, ParkError, RegisterShardsError, ReleaseError, RenewError,
    RunQueryError, RunTransitionError, SplitError, SplitRequestError, UnparkError,
};

use crate::fault::Fault;
use crate::tally::Tally;

/// What must be seen of an operation.
struct Operation {
    name: &'static str,
    /// Variants of its error.
    refusals: &'static [&'static str],
    /// What is wrong with plans that it refuses.
    plans: &'static [&'static str],
}

/// Declares which variants of an operation's error must be seen; what stands behind `never` cannot
/// be, for the reason given.
macro_rules! operations {
    ($($name:literal: $error:ident { $($variant:ident),+ $(,)? }
        $(never { $($never:ident: $why:literal),+ $(,)? })?
        $(plans { $($plan:ident),+ $(,)? })?;)+) => {
        const OPERATIONS: &[Operation] = &[$(Operation {
            name: $name,
            refusals: {
                // Every variant is in one of the lists, or this does not compile.
                const _: fn(&$error) = |error| match error {
                    $($error::$variant { .. })|+ $($(| $error::$never { .. })+)? => {}
                };
                $($(const _: &str = $why;)+)?
                &[$(stringify!($variant)),+]
            },
            plans: &[$($(concat!("SplitInvalid(", stringify!($plan), ")")),+)?],
        }),+];
    };
}

/// Declares the names of what stands inside a refusal, and which of them must be seen.
macro_rules! parts {
    ($(#[$doc:meta])* $name:ident, $list:ident: $outer:literal $error:ident {
        $($variant:ident),+ $(,)?
    }
        $(never { $($never:ident: $why:literal),+ $(,)? })?) => {
        $(#[$doc])*
        const fn $name(error: &$error) -> &'static str {
            match error {
                $($error::$variant { .. } => concat!($outer, "(", stringify!($variant), ")"),)+
                $($($error::$never { .. } => {
                    const _: &str = $why;
                    concat!($outer, "(", stringify!($never), ")")
                })+)?
            }
        }

        const $list: &[&str] = &[$(concat!($outer, "(", stringify!($variant), ")")),+];
    };
}

operations! {
    "acquire_and_restore": AcquireError {
        ShardNotFound, RunNotActive, RunPaused, ShardTerminal, AlreadyLeased, RetriesExhausted,
        FenceExhausted, BackendError,
    } never { TenantMismatch: "shards are looked up in the tenant, so another's is not found" };
    "claim_next_available": ClaimError {
        RunNotFound, RunNotActive, RunPaused, Throttled, NoneAvailable, BackendError,
    } never { TenantMismatch: "runs are looked up in the tenant, so another's is not found" };
    "renew": RenewError {
        ShardNotFound, TenantMismatch, RunNotActive, ShardTerminal, StaleFence, LeaseExpired,
        BackendError,
    };
    "decline_split": DeclineError {
        ShardNotFound, TenantMismatch, RunNotActive, ShardTerminal, StaleFence, LeaseExpired,
        BackendError,
    };
    "release": ReleaseError {
        ShardNotFound, TenantMismatch, RunNotActive, ShardTerminal, StaleFence, LeaseExpired,
        OpIdConflict, BackendError,
    };
    "checkpoint": CheckpointError {
        ShardNotFound, TenantMismatch, RunNotActive, ShardTerminal, StaleFence, LeaseExpired,
        OpIdConflict, CheckpointMissingKey, CursorKeyTooLarge, CursorTokenTooLarge,
        CursorRegression, CursorOutOfBounds, ResourceExhausted, BackendError,
    };
    "complete": CompleteError {
        ShardNotFound, TenantMismatch, RunNotActive, ShardTerminal, StaleFence, LeaseExpired,
        OpIdConflict, CheckpointMissingKey, CursorKeyTooLarge, CursorTokenTooLarge,
        CursorRegression, CursorOutOfBounds, ResourceExhausted, BackendError,
    };
    "park_shard": ParkError {
        ShardNotFound, TenantMismatch, RunNotActive, ShardTerminal, StaleFence, LeaseExpired,
        OpIdConflict, ParkDetailTooLarge, ResourceExhausted, BackendError,
    };
    "split_replace": SplitError {
        ShardNotFound, TenantMismatch, RunNotActive, ShardTerminal, StaleFence, LeaseExpired,
        OpIdConflict, SplitInvalid, ResourceExhausted, BackendError,
    } plans { StartMismatch, EndMismatch, ChildCursorAhead };
    "split_residual": SplitError {
        ShardNotFound, TenantMismatch, RunNotActive, ShardTerminal, StaleFence, LeaseExpired,
        OpIdConflict, SplitInvalid, ResourceExhausted, BackendError,
    } plans { StartMismatch, EndMismatch, ParentCursorOutOfBounds };
    "request_split": SplitRequestError {
        ShardNotFound, RunNotActive, ShardTerminal, NotLeased, SplitRequestOver,
        SplitAlreadyRequested, SplitDeclined, BackendError,
    } never { TenantMismatch: "shards are looked up in the tenant, so another's is not found" };
    "unpark_shard": UnparkError {
        ShardNotFound, OpIdConflict, RunTerminal, NotParked, FenceExhausted, BackendError,
    } never {
        TenantMismatch: "shards are looked up in the tenant, so another's is not found",
        RunNotActive: "a run that is not active has ended, or has no shards yet",
    };
    "create_run": CreateRunError { RunAlreadyExists, ConfigMismatch, BackendError } never {
        RunLimitExceeded: "worlds have few runs: a test of the in-memory backend reaches it",
    };
    "register_shards": RegisterShardsError {
        RunNotFound, OpIdConflict, WrongStatus, ManifestInvalid, ShardLimitExceeded,
        ResourceExhausted, BackendError,
    } never { TenantMismatch: "runs are looked up in the tenant, so another's is not found" };
    "create_run_with_shards": RegisterShardsError {
        OpIdConflict, WrongStatus, ManifestInvalid, ShardLimitExceeded, ResourceExhausted,
        BackendError,
    } never {
        TenantMismatch: "runs are looked up in the tenant, so another's is not found",
        RunNotFound: "a run that is not there is made",
    };
    "complete_run": RunTransitionError {
        RunNotFound, OpIdConflict, RunTerminal, WrongStatus, RunUnfinished, BackendError,
    } never { TenantMismatch: "runs are looked up in the tenant, so another's is not found" };
    "fail_run": RunTransitionError {
        RunNotFound, OpIdConflict, RunTerminal, WrongStatus, BackendError,
    } never {
        TenantMismatch: "runs are looked up in the tenant, so another's is not found",
        RunUnfinished: "a run may fail whatever its shards do",
    };
    "cancel_run": RunTransitionError {
        RunNotFound, OpIdConflict, RunTerminal, BackendError,
    } never {
        TenantMismatch: "runs are looked up in the tenant, so another's is not found",
        WrongStatus: "a run can be cancelled in every state but an ended one",
        RunUnfinished: "a run may be cancelled whatever its shards do",
    };
    "pause_run": RunTransitionError {
        RunNotFound, OpIdConflict, RunTerminal, WrongStatus, BackendError,
    } never {
        TenantMismatch: "runs are looked up in the tenant, so another's is not found",
        RunUnfinished: "only what ends well needs shards to be done",
    };
    "resume_run": RunTransitionError {
        RunNotFound, OpIdConflict, RunTerminal, WrongStatus, BackendError,
    } never {
        TenantMismatch: "runs are looked up in the tenant, so another's is not found",
        RunUnfinished: "only what ends well needs shards to be done",
    };
    "get_run": RunQueryError { RunNotFound, BackendError } never {
        TenantMismatch: "runs are looked up in the tenant, so another's is not found",
    };
    "get_run_progress": RunQueryError { RunNotFound, BackendError } never {
        TenantMismatch: "runs are looked up in the tenant, so another's is not found",
    };
    "list_shards": RunQueryError { RunNotFound, BackendError } never {
        TenantMismatch: "runs are looked up in the tenant, so another's is not found",
    };
    "collect_claim_candidates": RunQueryError { RunNotFound, BackendError } never {
        TenantMismatch: "runs are looked up in the tenant, so another's is not found",
    };
}

parts! {
    /// The class of a failure below.
    infra, INFRA: "BackendError" InfraError { NotApplied, Unknown, Corrupt }
}

parts! {
    /// What is wrong with a manifest.
    manifest, MANIFEST: "ManifestInvalid" ManifestValidationError {
        TooManyShards, Empty, DerivedId, DuplicateIds, UnboundedRange, InvalidSpec,
        OverlappingRanges, InvalidCursor, CursorOutOfBounds,
    }
}

parts! {
    /// Why a split cannot be done; what is wrong with its plan differs from operation to operation.
    split, SPLIT: "SplitInvalid" SplitInvalid { ShardLimitExceeded } never {
        Plan: "named by what is wrong with it",
        SpawnLimitExceeded: "it takes 1,024 splits of one shard: a story tells of it",
        BackendChildLimitExceeded: "memory has no such limit: a test of the engine reaches it",
        DerivedIdCollision: "it takes two equal hashes of 63 bits: tests plant one",
    }
}

parts! {
    /// What is wrong with a plan. Which of these an operation can find, its table says: a plan
    /// that is wrong in itself cannot be made, so it is one of another shard or of another time.
    plan, PLANS: "SplitInvalid" SplitValidationError {
        StartMismatch, EndMismatch, ChildCursorAhead, ParentCursorOutOfBounds,
    } never {
        NoChildren: "planning refuses it",
        SingleChild: "planning refuses it",
        TooManyChildren: "planning refuses it",
        InvalidChildSpec: "planning refuses it",
        Gap: "planning refuses it",
        Overlap: "planning refuses it",
        InvalidChildCursor: "planning refuses it",
        ChildCursorOutOfBounds: "planning refuses it",
        InvalidParentCursor: "a stored cursor is valid",
    }
}

/// Operations that replay by their id, each of which must have been replayed.
pub const REPLAYS: &[&str] = &[
    "checkpoint",
    "complete",
    "park_shard",
    "release",
    "split_replace",
    "split_residual",
    "unpark_shard",
    "register_shards",
    "create_run_with_shards",
    "complete_run",
    "fail_run",
    "cancel_run",
    "pause_run",
    "resume_run",
];

impl Operation {
    /// The names of all refusals that must be seen, as [`name`] gives them.
    fn expected(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.refusals.iter().flat_map(|refusal| match *refusal {
            // Those are failures, not refusals.
            "BackendError" => Vec::new(),
            "ManifestInvalid" => MANIFEST.to_vec(),
            "SplitInvalid" => [SPLIT, self.plans].concat(),
            other => vec![other],
        })
    }
}

/// What worlds around a store do not show, or count apart.
const NOT_AROUND_A_STORE: &[(&str, &str)] = &[
    ("BackendError(NotApplied)", "counted apart"),
    ("BackendError(Unknown)", "counted apart"),
    ("BackendError(Corrupt)", "only shards are damaged, so only some operations meet it"),
    ("ResourceExhausted", "it is memory that is short there, of bytes for a record"),
    ("Throttled", "claims are not held back there"),
    ("FenceExhausted", "fences are not raised that far there"),
];

/// What a sweep has not seen.
#[must_use]
pub fn missing(tally: &Tally) -> Vec<String> {
    let mut missing = missing_answers(tally, |_| true);
    for fault in Fault::ALL.iter().filter(|fault| !tally.faults.contains_key(fault)) {
        missing.push(format!("there was never this fault: {}", fault.words()));
    }
    missing
}

/// What a sweep of worlds around a store has not seen of the protocol.
#[must_use]
pub fn missing_around_a_store(tally: &Tally) -> Vec<String> {
    missing_answers(tally, |refusal| NOT_AROUND_A_STORE.iter().all(|(name, _)| *name != refusal))
}

fn missing_answers(tally: &Tally, is_demanded: impl Fn(&str) -> bool) -> Vec<String> {
    let mut missing = Vec::new();
    for operation in OPERATIONS {
        let name = operation.name;
        for refusal in operation.expected().filter(|refusal| is_demanded(refusal)) {
            if !tally.refusals.contains_key(&(name, refusal)) {
                missing.push(format!("{name} was never refused for {refusal}"));
            }
        }
        if operation.refusals.contains(&"BackendError") {
            let was_told = |it: &&str| tally.failures.contains_key(&(name, *it));
            let unheard = INFRA.iter().copied().filter(|it| is_demanded(it) && !was_told(it));
            missing.extend(unheard.map(|it| format!("nobody was told of a {name}: {it}")));
        }
        if !tally.accepted.contains_key(name) {
            missing.push(format!("{name} was never accepted"));
        }
    }
    let has_config = ("create_run_with_shards", "ConfigMismatch");
    if !tally.refusals.contains_key(&has_config) {
        missing.push("no run was made again, with shards, in another configuration".into());
    }
    for plan in PLANS {
        if !tally.refusals.keys().any(|(_, refusal)| refusal == plan) {
            missing.push(format!("no split was ever refused for {plan}"));
        }
    }
    for operation in REPLAYS.iter().filter(|name| !tally.replayed.contains_key(*name)) {
        missing.push(format!("{operation} was never replayed"));
    }
    missing
}

/// The name of a refusal, as the tables here have it.
#[must_use]
pub const fn name(refusal: &CoordError) -> &'static str {
    match refusal {
        CoordError::RunNotFound(_) => "RunNotFound",
        CoordError::RunAlreadyExists(_) => "RunAlreadyExists",
        CoordError::ConfigMismatch(_) => "ConfigMismatch",
        CoordError::ShardNotFound(_) => "ShardNotFound",
        CoordError::TenantMismatch(_) => "TenantMismatch",
        CoordError::OpIdConflict(_) => "OpIdConflict",
        CoordError::RunNotActive(_) => "RunNotActive",
        CoordError::RunTerminal(_) => "RunTerminal",
        CoordError::WrongStatus(_) => "WrongStatus",
        CoordError::RunUnfinished(_) => "RunUnfinished",
        CoordError::RunPaused(_) => "RunPaused",
        CoordError::ShardTerminal(_) => "ShardTerminal",
        CoordError::NotParked(_) => "NotParked",
        CoordError::StaleFence(_) => "StaleFence",
        CoordError::FenceExhausted(_) => "FenceExhausted",
        CoordError::LeaseExpired(_) => "LeaseExpired",
        CoordError::AlreadyLeased(_) => "AlreadyLeased",
        CoordError::RetriesExhausted(_) => "RetriesExhausted",
        CoordError::CheckpointMissingKey(_) => "CheckpointMissingKey",
        CoordError::CursorKeyTooLarge(_) => "CursorKeyTooLarge",
        CoordError::CursorTokenTooLarge(_) => "CursorTokenTooLarge",
        CoordError::CursorRegression(_) => "CursorRegression",
        CoordError::CursorOutOfBounds(_) => "CursorOutOfBounds",
        CoordError::ParkDetailTooLarge(_) => "ParkDetailTooLarge",
        CoordError::SplitInvalid(SplitInvalid::Plan(reason)) => plan(reason),
        CoordError::SplitInvalid(reason) => split(reason),
        CoordError::NotLeased(_) => "NotLeased",
        CoordError::SplitAlreadyRequested(_) => "SplitAlreadyRequested",
        CoordError::SplitRequestOver(_) => "SplitRequestOver",
        CoordError::SplitDeclined(_) => "SplitDeclined",
        CoordError::Throttled(_) => "Throttled",
        CoordError::NoneAvailable(_) => "NoneAvailable",
        CoordError::ManifestInvalid(reason) => manifest(reason),
        CoordError::ShardLimitExceeded(_) => "ShardLimitExceeded",
        CoordError::RunLimitExceeded(_) => "RunLimitExceeded",
        CoordError::RunIdUsed(_) => "RunIdUsed",
        CoordError::LabelTooLarge(_) => "LabelTooLarge",
        CoordError::ResourceExhausted(_) => "ResourceExhausted",
        CoordError::BackendError(reason) => infra(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operation_can_find_wrong_with_a_plan_is_among_what_can_be_found() {
        for operation in OPERATIONS {
            assert!(operation.plans.iter().all(|plan| PLANS.contains(plan)), "{}", operation.name);
        }
        let found = |plan| OPERATIONS.iter().any(|operation| operation.plans.contains(plan));
        assert!(PLANS.iter().all(found));
    }
}
