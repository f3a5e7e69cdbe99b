//! What the sequences came to, so that nobody believes in comparisons that were never made.

use std::collections::BTreeMap;
use std::fmt::Write;

use shardwright_coordination::{CreateRunWithShardsError, IdempotentOutcome};

use super::op::Answer;

/// How often each kind of call had each kind of outcome.
#[derive(Debug, Default)]
pub(crate) struct Tally(BTreeMap<String, u64>);

impl Tally {
    pub(crate) fn count(&mut self, answer: &Answer) {
        let (call, outcome) = describe(answer);
        let name = if outcome.is_empty() { call.to_owned() } else { format!("{call} {outcome}") };
        *self.0.entry(name).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (name, count) in other.0 {
            *self.0.entry(name).or_default() += count;
        }
    }

    /// Fails unless every outcome that the sequences are meant to reach was reached.
    pub(crate) fn check(&self) {
        let missing: Vec<_> = MEANT.iter().filter(|name| !self.0.contains_key(**name)).collect();
        assert!(missing.is_empty(), "never happened: {missing:?}; what did: {self}");
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(name, count)| write!(f, "\n{count:9}  {name}"))
    }
}

fn describe(answer: &Answer) -> (&'static str, String) {
    match answer {
        Answer::Create(result) => ("create", plain(result)),
        Answer::Register(result) => ("register", idempotent(result)),
        Answer::CreateWith(Err(CreateRunWithShardsError::Create(error))) => {
            ("create with", variant(error))
        }
        Answer::CreateWith(Err(CreateRunWithShardsError::Register(error))) => {
            ("create with", variant(error))
        }
        Answer::CreateWith(result) => ("create with", idempotent(result)),
        Answer::Acquire(result) => ("acquire", plain(result)),
        Answer::Claim(result) => ("claim", plain(result)),
        Answer::Candidates(result) => ("candidates", plain(result)),
        Answer::Renew(result) => ("renew", plain(result)),
        Answer::Checkpoint(result) => ("checkpoint", idempotent(result)),
        Answer::Complete(result) => ("complete", idempotent(result)),
        Answer::Park(result) => ("park", idempotent(result)),
        Answer::Release(result) => ("release", idempotent(result)),
        Answer::Replace(result) => ("replace", idempotent(result)),
        Answer::Residual(result) => ("residual", idempotent(result)),
        Answer::Decline(result) => ("decline", plain(result)),
        Answer::Ask(result) => ("ask", plain(result)),
        Answer::Unpark(result) => ("unpark", idempotent(result)),
        Answer::Look(result) => ("look", plain(result)),
        Answer::Progress(result) => ("progress", plain(result)),
        Answer::List(result) => ("list", plain(result)),
        Answer::Change(result) => ("change", idempotent(result)),
        Answer::NoPlan => ("no plan", String::new()),
        Answer::Time => ("time", String::new()),
    }
}

fn plain<T, E: std::fmt::Debug>(result: &Result<T, E>) -> String {
    result.as_ref().map_or_else(variant, |_| "done".to_owned())
}

fn idempotent<T, E: std::fmt::Debug>(result: &Result<IdempotentOutcome<T>, E>) -> String {
    let outcome = |outcome: &IdempotentOutcome<T>| {
        if outcome.is_replay() { "replayed" } else { "done" }.to_owned()
    };
    result.as_ref().map_or_else(variant, outcome)
}

/// The name of an error's variant; of a split that is invalid, why.
fn variant(error: &impl std::fmt::Debug) -> String {
    let mut text = String::new();
    write!(text, "{error:?}").unwrap();
    let names = |text: &str| text.split(['(', ' ']).next().unwrap_or_default().to_owned();
    match text.strip_prefix("SplitInvalid(") {
        Some(reason) => names(reason),
        None => names(&text),
    }
}

/// What must have happened at least once.
const MEANT: &[&str] = &[
    "acquire AlreadyLeased",
    "acquire RetriesExhausted",
    "acquire RunNotActive",
    "acquire RunPaused",
    "acquire ShardNotFound",
    "acquire ShardTerminal",
    "acquire done",
    "ask NotLeased",
    "ask RunNotActive",
    "ask ShardNotFound",
    "ask ShardTerminal",
    "ask SplitAlreadyRequested",
    "ask SplitDeclined",
    "ask done",
    "candidates RunNotFound",
    "candidates done",
    "change OpIdConflict",
    "change RunNotFound",
    "change RunTerminal",
    "change RunUnfinished",
    "change WrongStatus",
    "change done",
    "change replayed",
    "checkpoint CheckpointMissingKey",
    "checkpoint CursorKeyTooLarge",
    "checkpoint CursorOutOfBounds",
    "checkpoint CursorRegression",
    "checkpoint CursorTokenTooLarge",
    "checkpoint LeaseExpired",
    "checkpoint OpIdConflict",
    "checkpoint RunNotActive",
    "checkpoint ShardNotFound",
    "checkpoint ShardTerminal",
    "checkpoint StaleFence",
    "checkpoint TenantMismatch",
    "checkpoint done",
    "checkpoint replayed",
    "claim NoneAvailable",
    "claim RunNotActive",
    "claim RunNotFound",
    "claim RunPaused",
    "claim Throttled",
    "claim done",
    "complete CursorOutOfBounds",
    "complete CursorRegression",
    "complete LeaseExpired",
    "complete OpIdConflict",
    "complete ShardTerminal",
    "complete StaleFence",
    "complete done",
    "complete replayed",
    "create ConfigMismatch",
    "create RunAlreadyExists",
    "create done",
    "create with ConfigMismatch",
    "create with ManifestInvalid",
    "create with OpIdConflict",
    "create with ShardLimitExceeded",
    "create with WrongStatus",
    "create with done",
    "create with replayed",
    "decline LeaseExpired",
    "decline StaleFence",
    "decline done",
    "list RunNotFound",
    "list done",
    "look RunNotFound",
    "look done",
    "no plan",
    "park LeaseExpired",
    "park ParkDetailTooLarge",
    "park ShardTerminal",
    "park StaleFence",
    "park done",
    "park replayed",
    "progress RunNotFound",
    "progress done",
    "register ManifestInvalid",
    "register OpIdConflict",
    "register RunNotFound",
    "register ShardLimitExceeded",
    "register WrongStatus",
    "register done",
    "register replayed",
    "release LeaseExpired",
    "release ShardTerminal",
    "release StaleFence",
    "release done",
    "release replayed",
    "renew LeaseExpired",
    "renew RunNotActive",
    "renew ShardNotFound",
    "renew ShardTerminal",
    "renew StaleFence",
    "renew TenantMismatch",
    "renew done",
    "replace LeaseExpired",
    "replace OpIdConflict",
    "replace Plan",
    "replace ShardLimitExceeded",
    "replace ShardTerminal",
    "replace StaleFence",
    "replace done",
    "replace replayed",
    "residual LeaseExpired",
    "residual OpIdConflict",
    "residual Plan",
    "residual ShardLimitExceeded",
    "residual ShardTerminal",
    "residual StaleFence",
    "residual done",
    "residual replayed",
    "unpark NotParked",
    "unpark OpIdConflict",
    "unpark RunTerminal",
    "unpark ShardNotFound",
    "unpark done",
    "unpark replayed",
];
