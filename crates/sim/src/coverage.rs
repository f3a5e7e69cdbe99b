//! What a sweep must have seen, so that every oracle and every refusal is exercised.
//!
//! For each variant of each operation's error, a table states that it must be seen, or why it never
//! can be. The tables are matched without a wildcard, so a new variant does not compile until it is
//! in one of them.
//!
//! The in-memory backend never returns `BackendError`, because it has no infrastructure that could
//! fail. The world fabricates such failures between sender and system. They are counted and shown
//! apart from refusals. Worlds around a store have real ones.

use shardwright_contracts::{ManifestValidationError, SplitValidationError};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{
    AcquireError, CheckpointError, ClaimError, CompleteError, CoordError, CreateRunError,
    DeclineError, InfraError, ParkError, RegisterShardsError, ReleaseError, RenewError,
    RunQueryError, RunTransitionError, SplitError, SplitRequestError, UnparkError,
};

use crate::fault::Fault;
use crate::tally::Tally;

/// The errors of an operation that must be seen.
struct Operation {
    name: &'static str,
    /// Variants of its error.
    refusals: &'static [&'static str],
    /// Defects of the plans that it refuses.
    plans: &'static [&'static str],
}

/// Declares which variants of an operation's error must be seen. The variants behind `never` cannot
/// be seen, for the given reason.
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

/// Declares the names of nested errors, and which of them must be seen.
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
        RunNotFound: "a missing run is created",
    };
    "complete_run": RunTransitionError {
        RunNotFound, OpIdConflict, RunTerminal, WrongStatus, RunUnfinished, BackendError,
    } never { TenantMismatch: "runs are looked up in the tenant, so another's is not found" };
    "fail_run": RunTransitionError {
        RunNotFound, OpIdConflict, RunTerminal, WrongStatus, BackendError,
    } never {
        TenantMismatch: "runs are looked up in the tenant, so another's is not found",
        RunUnfinished: "a run may fail in any state of its shards",
    };
    "cancel_run": RunTransitionError {
        RunNotFound, OpIdConflict, RunTerminal, BackendError,
    } never {
        TenantMismatch: "runs are looked up in the tenant, so another's is not found",
        WrongStatus: "a run can be cancelled in every state but an ended one",
        RunUnfinished: "a run may be cancelled in any state of its shards",
    };
    "pause_run": RunTransitionError {
        RunNotFound, OpIdConflict, RunTerminal, WrongStatus, BackendError,
    } never {
        TenantMismatch: "runs are looked up in the tenant, so another's is not found",
        RunUnfinished: "only completing a run requires done shards",
    };
    "resume_run": RunTransitionError {
        RunNotFound, OpIdConflict, RunTerminal, WrongStatus, BackendError,
    } never {
        TenantMismatch: "runs are looked up in the tenant, so another's is not found",
        RunUnfinished: "only completing a run requires done shards",
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
    /// The class of an infrastructure failure.
    infra, INFRA: "BackendError" InfraError { NotApplied, Unknown, Corrupt }
}

parts! {
    /// The defect of a manifest.
    manifest, MANIFEST: "ManifestInvalid" ManifestValidationError {
        TooManyShards, Empty, DerivedId, DuplicateIds, UnboundedRange, InvalidSpec,
        OverlappingRanges, InvalidCursor, CursorOutOfBounds,
    }
}

parts! {
    /// Why a split is refused. The defects of plans differ between operations.
    split, SPLIT: "SplitInvalid" SplitInvalid { ShardLimitExceeded } never {
        Plan: "named by the defect of the plan",
        SpawnLimitExceeded: "it takes 1,024 splits of one shard: a protocol script reaches it",
        BackendChildLimitExceeded: "memory has no such limit: a test of the engine reaches it",
        DerivedIdCollision: "it takes two equal hashes of 63 bits: tests plant one",
    }
}

parts! {
    /// The defect of a plan. The table of an operation states which of them it can find. A plan
    /// that is invalid in itself cannot be built, so the plan is for another shard or outdated.
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

/// Operations with an op id. Each must have been replayed.
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
    /// The names, by [`name`], of all refusals that must be seen.
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

/// Refusals that worlds around a store never return, or count separately.
const NOT_AROUND_A_STORE: &[(&str, &str)] = &[
    ("BackendError(NotApplied)", "counted separately"),
    ("BackendError(Unknown)", "counted separately"),
    ("BackendError(Corrupt)", "only shards are damaged, so only some operations meet it"),
    ("ResourceExhausted", "only the in-memory backend has a byte budget for records"),
    ("Throttled", "claims are not throttled there"),
    ("FenceExhausted", "fences are not raised that far there"),
];

/// What a sweep has not seen.
#[must_use]
pub fn missing(tally: &Tally) -> Vec<String> {
    let mut missing = missing_answers(tally, |_| true);
    for fault in Fault::ALL.iter().filter(|fault| !tally.faults.contains_key(fault)) {
        missing.push(format!("this fault never occurred: {}", fault.words()));
    }
    missing
}

/// What a sweep of worlds around a store has not seen of the protocol.
#[must_use]
pub fn missing_around_a_store(tally: &Tally) -> Vec<String> {
    missing_answers(tally, |refusal| NOT_AROUND_A_STORE.iter().all(|(name, _)| *name != refusal))
}

fn missing_answers(tally: &Tally, is_required: impl Fn(&str) -> bool) -> Vec<String> {
    let mut missing = Vec::new();
    for operation in OPERATIONS {
        let name = operation.name;
        for refusal in operation.expected().filter(|refusal| is_required(refusal)) {
            if !tally.refusals.contains_key(&(name, refusal)) {
                missing.push(format!("{name} was never refused for {refusal}"));
            }
        }
        if operation.refusals.contains(&"BackendError") {
            let was_returned = |it: &&str| tally.failures.contains_key(&(name, *it));
            let unseen = INFRA.iter().copied().filter(|it| is_required(it) && !was_returned(it));
            missing.extend(unseen.map(|it| format!("no sender of a {name} got: {it}")));
        }
        if !tally.accepted.contains_key(name) {
            missing.push(format!("{name} was never accepted"));
        }
    }
    let config_mismatch = ("create_run_with_shards", "ConfigMismatch");
    if !tally.refusals.contains_key(&config_mismatch) {
        missing.push("create_run_with_shards was never refused for ConfigMismatch".into());
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

/// The name of a refusal in these tables.
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
    fn every_plan_defect_of_an_operation_is_known() {
        for operation in OPERATIONS {
            assert!(operation.plans.iter().all(|plan| PLANS.contains(plan)), "{}", operation.name);
        }
        let found = |plan| OPERATIONS.iter().any(|operation| operation.plans.contains(plan));
        assert!(PLANS.iter().all(found));
    }
}
