//! The wording of answers.

use std::fmt::Debug;

use shardwright_contracts::{CursorSemantics, CursorUpdate, LogicalTime, ShardId, WorkerId};
use shardwright_coordination::{
    CapacityHint, EventKind, HolderNotice, RenewResult, Reply, Request, RestoredShardState,
    RunProgress, RunRecord, RunTerminalEvaluation, ShardSummary, StateTransitionEvent,
    evaluate_run_terminal,
};

use super::names::Names;

/// Longer keys are shown as their length.
const KEY_WIDTH: usize = 24;

/// The answer to a request whose reply carries nothing.
pub(super) const fn done(request: &Request<Vec<u8>>) -> &'static str {
    match request {
        Request::RequestSplit(_) => "requested",
        Request::DeclineSplit(_) => "declined",
        _ => "done",
    }
}

pub(super) fn reply(names: &Names, reply: &Reply, done: &str, with_hint: bool) -> Vec<String> {
    let word = if reply.is_replay() { "replayed" } else { "done" };
    match reply {
        Reply::Granted(state) => granted(names, state, with_hint),
        Reply::Renewed(renewal) => renewed(renewal, with_hint),
        Reply::Noticed(outcome) => vec![format!("{word}{}", notice(outcome.into_inner()))],
        Reply::Applied(_) => vec![word.to_owned()],
        Reply::Replaced(outcome) => {
            let children = outcome.clone().into_inner().children;
            vec![format!("{word}: {}", shards(names, &children))]
        }
        Reply::Residual(outcome) => {
            vec![format!("{word}: {}", names.of_shard(outcome.into_inner().residual))]
        }
        Reply::Done => vec![done.to_owned()],
        Reply::Run(record) => run(names, record),
        Reply::Progress(counted) => progress(counted),
        Reply::Shards(listed) if listed.is_empty() => vec!["none".to_owned()],
        Reply::Shards(listed) => listed.iter().map(|shard| summary(names, shard)).collect(),
        Reply::Candidates(found, hint) => {
            vec![format!("{}; {}", shards(names, found), first_deadline(hint.earliest_deadline))]
        }
        other => vec![format!("{other:?}")],
    }
}

fn granted(names: &Names, state: &RestoredShardState, with_hint: bool) -> Vec<String> {
    let (lease, snapshot) = (&state.lease, state.snapshot());
    let mut text = format!(
        "granted {} with fence {} until {}: {}, cursor {}",
        names.of_shard(lease.key().shard),
        lease.fence(),
        lease.deadline().as_millis(),
        range(snapshot.spec.start(), snapshot.spec.end()),
        cursor(snapshot.cursor),
    );
    if !snapshot.spec.metadata().is_empty() {
        text += &format!(", metadata {}", key(snapshot.spec.metadata()));
    }
    if snapshot.cursor_semantics == CursorSemantics::Dispatched {
        text += ", dispatched";
    }
    if let Some(parent) = snapshot.parent {
        text += &format!(", split from {}", names.of_shard(parent));
    }
    if !snapshot.spawned.is_empty() {
        let spawned: Vec<ShardId> = snapshot.spawned.iter().map(|one| one.shard).collect();
        text += &format!(", spawned {}", shards(names, &spawned));
    }
    with_capacity(text, &state.capacity, with_hint)
}

fn renewed(result: &RenewResult, with_hint: bool) -> Vec<String> {
    let until = result.new_deadline.as_millis();
    let text = format!("renewed until {until}{}", notice(result.notice));
    with_capacity(text, &result.capacity, with_hint)
}

fn with_capacity(text: String, hint: &CapacityHint, with_hint: bool) -> Vec<String> {
    let mut answer = vec![text];
    if with_hint {
        answer.push(format!(
            "hint: {} available, {}, {} waiting",
            hint.available_count,
            first_deadline(hint.earliest_deadline),
            hint.waiting_workers,
        ));
    }
    answer
}

fn notice(notice: Option<HolderNotice>) -> String {
    let mut text = String::new();
    let Some(notice) = notice else { return text };
    if notice.paused {
        text += ", the run is paused";
    }
    if let Some(request) = notice.split_request {
        let (at, expires) = (request.requested_at.as_millis(), request.expires_at.as_millis());
        let requester = worker(request.requester);
        text += &format!(", {requester} requested a part at {at} until {expires}");
    }
    text
}

fn first_deadline(deadline: Option<LogicalTime>) -> String {
    match deadline {
        Some(deadline) => format!("first lease ends at {}", deadline.as_millis()),
        None => "no lease".to_owned(),
    }
}

pub(super) fn summary(names: &Names, shard: &ShardSummary) -> String {
    let mut text = format!(
        "{} {} {}",
        names.of_shard(shard.shard),
        range(&shard.start, &shard.end),
        lower(shard.status),
    );
    if let Some(reason) = shard.park_reason {
        text += &format!(" ({})", lower(reason));
    }
    if let Some(deadline) = shard.lease_deadline {
        text += &format!(", leased until {}", deadline.as_millis());
    }
    text += &format!(", cursor {}", shard.last_key.as_deref().map_or("none".into(), key));
    text += &format!(", acquires {}", shard.acquire_count);
    if let Some(parent) = shard.parent {
        text += &format!(", split from {}", names.of_shard(parent));
    }
    if shard.spawned_count > 0 {
        text += &format!(", spawned {}", shard.spawned_count);
    }
    text
}

fn run(names: &Names, record: &RunRecord) -> Vec<String> {
    let mut text = format!("{} {}", names.of_run(record.run), lower(record.status));
    if record.paused {
        text += ", paused";
    }
    text += &format!(", lease {}", record.config.lease_duration_ms);
    if let Some(retries) = record.config.max_shard_retries {
        text += &format!(", retries {retries}");
    }
    if record.config.cursor_semantics == CursorSemantics::Dispatched {
        text += ", dispatched";
    }
    text += &format!(", created at {}", record.created_at.as_millis());
    if let Some(end) = record.completed_at {
        text += &format!(", ended at {}", end.as_millis());
    }
    let mut answer = vec![text, format!("shards: {}", shards(names, &record.root_shards))];
    answer.extend(record.op_log.entries().map(|entry| {
        let (op, at) = (entry.op.as_raw(), entry.executed_at.as_millis());
        format!("op {op}: {} at {at}", lower(entry.kind))
    }));
    answer
}

fn progress(progress: &RunProgress) -> Vec<String> {
    let RunProgress { active, leased, done, split, parked, ref watermark } = *progress;
    let watermark = watermark.as_deref().map_or("none".into(), key);
    let evaluation = match evaluate_run_terminal(progress) {
        RunTerminalEvaluation::StillActive => "still active",
        RunTerminalEvaluation::HasFailures => "has failures",
        RunTerminalEvaluation::AllDone => "all done",
    };
    vec![
        format!("active {active} (leased {leased}), done {done}, split {split}, parked {parked}"),
        format!("{evaluation}, watermark {watermark}"),
    ]
}

pub(super) fn event(names: &Names, event: &StateTransitionEvent) -> String {
    let shard = |shard: &ShardId| names.of_shard(*shard);
    let what = match &event.kind {
        EventKind::ShardAcquired { shard: id, worker: by, fence_epoch } => {
            format!("ShardAcquired {} by {} with fence {fence_epoch}", shard(id), worker(*by))
        }
        EventKind::ShardCheckpointed { shard: id, last_key } => {
            format!("ShardCheckpointed {} at {last_key:?}", shard(id))
        }
        EventKind::ShardResidualCreated { parent, residual } => {
            format!("ShardResidualCreated {} from {}", shard(residual), shard(parent))
        }
        EventKind::ShardUnparked { shard: id, new_fence_epoch } => {
            format!("ShardUnparked {} with fence {new_fence_epoch}", shard(id))
        }
        EventKind::ShardLeaseRenewed { shard: id, new_deadline } => {
            format!("ShardLeaseRenewed {} until {}", shard(id), new_deadline.as_millis())
        }
        EventKind::ShardReleased { shard: id } => format!("ShardReleased {}", shard(id)),
        EventKind::SplitRequested { shard: id, requester } => {
            format!("SplitRequested {} by w{}", shard(id), requester.as_raw())
        }
        EventKind::SplitDeclined { shard: id, not_before } => {
            format!("SplitDeclined {} before {}", shard(id), not_before.as_millis())
        }
        EventKind::ShardCompleted { shard: id } => format!("ShardCompleted {}", shard(id)),
        EventKind::ShardParked { shard: id, reason } => {
            format!("ShardParked {} ({})", shard(id), lower(*reason))
        }
        EventKind::ShardSplit { parent, children } => {
            format!("ShardSplit {} into {}", shard(parent), shards(names, children))
        }
        EventKind::RunActivated { shard_count } => format!("RunActivated with {shard_count}"),
        plain => format!("{plain:?}"),
    };
    let (tenant, run) = (names.of_tenant(event.tenant), names.of_run(event.run));
    format!("{tenant}/{run} at {}: {what}", event.at.as_millis())
}

fn shards(names: &Names, shards: &[ShardId]) -> String {
    match shards {
        [] => "none".to_owned(),
        [first, .., last] if shards.len() > 8 => {
            let (first, last) = (names.of_shard(*first), names.of_shard(*last));
            format!("{first} to {last}, {} in all", shards.len())
        }
        few => few.iter().map(|shard| names.of_shard(*shard)).collect::<Vec<_>>().join(" "),
    }
}

fn worker(worker: WorkerId) -> String {
    format!("w{}", worker.as_raw())
}

fn cursor(cursor: CursorUpdate<'_>) -> String {
    match (cursor.last_key(), cursor.token()) {
        (None, _) => "none".to_owned(),
        (Some(last_key), None) => key(last_key),
        (Some(last_key), Some(token)) => format!("{}:{}", key(last_key), key(token)),
    }
}

fn range(start: &[u8], end: &[u8]) -> String {
    format!("{}..{}", key(start), key(end))
}

fn key(bytes: &[u8]) -> String {
    match bytes.len() {
        ..=KEY_WIDTH => bytes.escape_ascii().to_string(),
        size => format!("<{size} bytes>"),
    }
}

/// The name of a plain variant in words: `TooManyErrors` is `too many errors`.
fn lower(variant: impl Debug) -> String {
    let mut words = String::new();
    for letter in format!("{variant:?}").chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}
