//! Outcomes of the sequences, to prove that they cover the protocol.

use std::collections::BTreeMap;
use std::fmt::Write;

use shardwright_coordination::{Answer, CoordError, Request};

/// Number of calls by kind and outcome.
#[derive(Debug, Default)]
pub(crate) struct Tally(BTreeMap<String, u64>);

impl Tally {
    pub(crate) fn count(&mut self, request: &Request<Vec<u8>>, answer: &Answer) {
        let outcome = match answer {
            Ok(reply) if reply.is_replay() => "replayed".to_owned(),
            Ok(_) => "done".to_owned(),
            Err(error) => variant(error),
        };
        *self.0.entry(format!("{} {outcome}", request.name())).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (name, count) in other.0 {
            *self.0.entry(name).or_default() += count;
        }
    }

    /// Fails unless every expected outcome occurred.
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

/// Name of an error's variant, or the reason of an invalid split.
fn variant(error: &CoordError) -> String {
    let mut text = String::new();
    write!(text, "{error:?}").unwrap();
    let names = |text: &str| text.split(['(', ' ']).next().unwrap_or_default().to_owned();
    match text.strip_prefix("SplitInvalid(") {
        Some(reason) => names(reason),
        None => names(&text),
    }
}

/// Outcomes that must occur.
const MEANT: &[&str] = &[
    "acquire_and_restore AlreadyLeased",
    "acquire_and_restore RetriesExhausted",
    "acquire_and_restore RunNotActive",
    "acquire_and_restore RunPaused",
    "acquire_and_restore ShardNotFound",
    "acquire_and_restore ShardTerminal",
    "acquire_and_restore done",
    "change_run OpIdConflict",
    "change_run RunNotFound",
    "change_run RunTerminal",
    "change_run RunUnfinished",
    "change_run WrongStatus",
    "change_run done",
    "change_run replayed",
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
    "claim_next_available NoneAvailable",
    "claim_next_available RunNotActive",
    "claim_next_available RunNotFound",
    "claim_next_available RunPaused",
    "claim_next_available Throttled",
    "claim_next_available done",
    "collect_claim_candidates RunNotFound",
    "collect_claim_candidates done",
    "complete CursorOutOfBounds",
    "complete CursorRegression",
    "complete LeaseExpired",
    "complete OpIdConflict",
    "complete ShardTerminal",
    "complete StaleFence",
    "complete done",
    "complete replayed",
    "create_run ConfigMismatch",
    "create_run RunAlreadyExists",
    "create_run done",
    "create_run_with_shards ConfigMismatch",
    "create_run_with_shards ManifestInvalid",
    "create_run_with_shards OpIdConflict",
    "create_run_with_shards ShardLimitExceeded",
    "create_run_with_shards WrongStatus",
    "create_run_with_shards done",
    "create_run_with_shards replayed",
    "decline_split LeaseExpired",
    "decline_split StaleFence",
    "decline_split done",
    "find_run done",
    "get_run RunNotFound",
    "get_run done",
    "get_run_progress RunNotFound",
    "get_run_progress done",
    "label_of done",
    "list_labels done",
    "list_shards RunNotFound",
    "list_shards done",
    "name_run RunIdUsed",
    "name_run done",
    "park_shard LeaseExpired",
    "park_shard ParkDetailTooLarge",
    "park_shard ShardTerminal",
    "park_shard StaleFence",
    "park_shard done",
    "park_shard replayed",
    "register_shards ManifestInvalid",
    "register_shards OpIdConflict",
    "register_shards RunNotFound",
    "register_shards ShardLimitExceeded",
    "register_shards WrongStatus",
    "register_shards done",
    "register_shards replayed",
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
    "request_split NotLeased",
    "request_split RunNotActive",
    "request_split ShardNotFound",
    "request_split ShardTerminal",
    "request_split SplitAlreadyRequested",
    "request_split SplitDeclined",
    "request_split done",
    "split_replace LeaseExpired",
    "split_replace OpIdConflict",
    "split_replace Plan",
    "split_replace ShardLimitExceeded",
    "split_replace ShardTerminal",
    "split_replace StaleFence",
    "split_replace done",
    "split_replace replayed",
    "split_residual LeaseExpired",
    "split_residual OpIdConflict",
    "split_residual Plan",
    "split_residual ShardLimitExceeded",
    "split_residual ShardTerminal",
    "split_residual StaleFence",
    "split_residual done",
    "split_residual replayed",
    "unpark_shard NotParked",
    "unpark_shard OpIdConflict",
    "unpark_shard RunTerminal",
    "unpark_shard ShardNotFound",
    "unpark_shard done",
    "unpark_shard replayed",
];
