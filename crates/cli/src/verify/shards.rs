//! The shards of a run, as the store has them.

use base64::Engine as _;
use serde_json::{Value, json};
use shardwright_contracts::RunId;
use shardwright_coordination::ShardStatus;

use super::Findings;
use super::token::{self, Token};
use crate::commands::TENANT;
use crate::store::Coordinator;

/// A shard, in key order among the others.
pub(super) struct Stored {
    pub(super) start: Vec<u8>,
    pub(super) end: Vec<u8>,
    pub(super) reached: Option<Vec<u8>>,
    pub(super) is_done: bool,
    /// What the receipt ought to say about it, if it was set aside.
    pub(super) parked: Option<Value>,
    pub(super) acquired: u64,
    pub(super) spawned: u64,
    pub(super) token: Token,
}

/// Reads the shards, and sees to it that they lie side by side and are settled.
pub(super) async fn read(
    coordinator: &Coordinator,
    run: RunId,
    findings: &mut Findings,
) -> anyhow::Result<Vec<Stored>> {
    let mut shards = Vec::new();
    for record in coordinator.inspect_shards(TENANT, run).await? {
        let (spec, cursor) = (record.spec.as_spec_ref(), record.cursor.as_update());
        let id = record.head.key.shard.to_string();
        let token = match cursor.token() {
            Some(bytes) => token::parse(bytes).unwrap_or_else(|| {
                findings.add(format!("shard {id}: its cursor's token cannot be read"));
                Token::default()
            }),
            None => Token::default(),
        };
        match record.head.status {
            // Its children have its range.
            ShardStatus::Split => continue,
            ShardStatus::Active => findings.add(format!("shard {id} is not settled")),
            ShardStatus::Done | ShardStatus::Parked => {}
        }
        shards.push(Stored {
            start: spec.start().to_vec(),
            end: spec.end().to_vec(),
            reached: cursor.last_key().map(<[u8]>::to_vec),
            is_done: record.head.status == ShardStatus::Done,
            parked: record.head.park.as_ref().map(|park| {
                json!({
                    "shard": id,
                    "after": cursor.last_key().map(key_json),
                    "end": key_json(spec.end()),
                    "reason": format!("{:?}", park.reason),
                    "detail": String::from_utf8_lossy(&park.detail),
                })
            }),
            acquired: u64::from(record.head.acquire_count),
            spawned: record.head.spawned.len() as u64,
            token,
        });
    }
    shards.sort_by(|a, b| a.start.cmp(&b.start));
    for (left, right) in shards.iter().zip(shards.iter().skip(1)) {
        if left.end < right.start {
            findings.add(format!("there is a gap from {} on", hex::encode(&left.end)));
        }
        if left.end > right.start {
            findings.add(format!("two shards overlap from {} on", hex::encode(&right.start)));
        }
    }
    if shards.is_empty() {
        findings.add("the run has no shards");
    }
    Ok(shards)
}

/// A key as JSON: text, or base64 of what is none.
fn key_json(key: &[u8]) -> Value {
    match str::from_utf8(key) {
        Ok(text) => json!(text),
        Err(_) => json!({ "base64": base64::engine::general_purpose::STANDARD.encode(key) }),
    }
}
