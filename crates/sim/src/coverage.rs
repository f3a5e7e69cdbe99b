//! What a sweep must have seen, so that no oracle and no refusal goes untried.

use shardwright_coordination::CoordError;
use shardwright_coordination::error::reason::SplitInvalid;

use crate::fault::Fault;
use crate::tally::Tally;

const GUARD: &[&str] = &[
    "ShardNotFound",
    "TenantMismatch",
    "RunNotActive",
    "ShardTerminal",
    "StaleFence",
    "LeaseExpired",
];
const CURSOR: &[&str] = &[
    "OpIdConflict",
    "CheckpointMissingKey",
    "CursorKeyTooLarge",
    "CursorTokenTooLarge",
    "CursorRegression",
    "CursorOutOfBounds",
    "ResourceExhausted",
];
const SPLIT: &[&str] =
    &["OpIdConflict", "SplitInvalid(plan)", "SplitInvalid(limit)", "ResourceExhausted"];
const RUN: &[&str] = &["RunNotFound", "OpIdConflict", "RunTerminal"];

/// Every refusal that the in-memory backend can give, by operation.
///
/// Left out, because it cannot give them:
/// - `BackendError` anywhere: there is no machinery below that could fail.
/// - `TenantMismatch` where no lease is shown: a run or shard is looked up in the tenant, so
///   another tenant's is not found.
/// - `RunNotActive` from `unpark`: a run that is not active has ended, which is `RunTerminal`, or
///   has no shards yet, which is `ShardNotFound`.
/// - `WrongStatus` from `cancel_run`: a run can be cancelled in every state but an ended one.
/// - of `SplitInvalid`, the spawn limit (it takes 1,024 splits of one shard), the backend's child
///   limit (memory has none) and the id collision (it takes two equal 63-bit hashes).
pub const REFUSALS: &[(&str, &[&[&str]])] = &[
    (
        "acquire",
        &[&[
            "ShardNotFound",
            "RunNotActive",
            "RunPaused",
            "ShardTerminal",
            "AlreadyLeased",
            "RetriesExhausted",
            "FenceExhausted",
        ]],
    ),
    ("claim", &[&["RunNotFound", "RunNotActive", "RunPaused", "Throttled", "NoneAvailable"]]),
    ("renew", &[GUARD]),
    ("decline_split", &[GUARD]),
    ("release", &[GUARD, &["OpIdConflict"]]),
    ("checkpoint", &[GUARD, CURSOR]),
    ("complete", &[GUARD, CURSOR]),
    ("park", &[GUARD, &["OpIdConflict", "ParkDetailTooLarge"]]),
    ("split_replace", &[GUARD, SPLIT]),
    ("split_residual", &[GUARD, SPLIT]),
    (
        "request_split",
        &[&[
            "ShardNotFound",
            "RunNotActive",
            "ShardTerminal",
            "NotLeased",
            "SplitAlreadyRequested",
            "SplitDeclined",
        ]],
    ),
    ("unpark", &[&["ShardNotFound", "OpIdConflict", "RunTerminal", "NotParked", "FenceExhausted"]]),
    ("create_run", &[&["RunAlreadyExists", "ConfigMismatch"]]),
    (
        "register_shards",
        &[&[
            "RunNotFound",
            "OpIdConflict",
            "WrongStatus",
            "ManifestInvalid",
            "ShardLimitExceeded",
            "ResourceExhausted",
        ]],
    ),
    ("complete_run", &[RUN, &["WrongStatus", "RunUnfinished"]]),
    ("fail_run", &[RUN, &["WrongStatus"]]),
    ("cancel_run", &[RUN]),
    ("pause_run", &[RUN, &["WrongStatus"]]),
    ("resume_run", &[RUN, &["WrongStatus"]]),
    ("get_run", &[&["RunNotFound"]]),
    ("get_run_progress", &[&["RunNotFound"]]),
    ("list_shards", &[&["RunNotFound"]]),
    ("claim_candidates", &[&["RunNotFound"]]),
];

/// Operations that replay by their id, each of which must have been replayed.
pub const REPLAYS: &[&str] = &[
    "checkpoint",
    "complete",
    "park",
    "release",
    "split_replace",
    "split_residual",
    "unpark",
    "register_shards",
    "complete_run",
    "fail_run",
    "cancel_run",
    "pause_run",
    "resume_run",
];

/// What a sweep has not seen.
#[must_use]
pub fn missing(tally: &Tally) -> Vec<String> {
    let mut missing = Vec::new();
    for (operation, groups) in REFUSALS {
        for refusal in groups.iter().flat_map(|group| group.iter()) {
            if !tally.refusals.contains_key(&(*operation, *refusal)) {
                missing.push(format!("{operation} was never refused for {refusal}"));
            }
        }
        if !tally.accepted.contains_key(operation) {
            missing.push(format!("{operation} was never accepted"));
        }
    }
    for operation in REPLAYS.iter().filter(|name| !tally.replayed.contains_key(*name)) {
        missing.push(format!("{operation} was never replayed"));
    }
    for fault in Fault::ALL.iter().filter(|fault| !tally.faults.contains_key(fault)) {
        missing.push(format!("there was never this fault: {}", fault.words()));
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
        CoordError::SplitInvalid(SplitInvalid::Plan(_)) => "SplitInvalid(plan)",
        CoordError::SplitInvalid(SplitInvalid::ShardLimitExceeded(_)) => "SplitInvalid(limit)",
        CoordError::SplitInvalid(_) => "SplitInvalid(other)",
        CoordError::NotLeased(_) => "NotLeased",
        CoordError::SplitAlreadyRequested(_) => "SplitAlreadyRequested",
        CoordError::SplitDeclined(_) => "SplitDeclined",
        CoordError::Throttled(_) => "Throttled",
        CoordError::NoneAvailable(_) => "NoneAvailable",
        CoordError::ManifestInvalid(_) => "ManifestInvalid",
        CoordError::ShardLimitExceeded(_) => "ShardLimitExceeded",
        CoordError::ResourceExhausted(_) => "ResourceExhausted",
        CoordError::BackendError(_) => "BackendError",
    }
}
