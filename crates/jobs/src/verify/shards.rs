//! The shards of a run in the store.

use base64::Engine as _;
use serde_json::{Value, json};
use shardwright_contracts::RunId;
use shardwright_coordination::ShardStatus;
use shardwright_worker::connector::KeyRange;

use super::Findings;
use crate::Coordinator;
use crate::TENANT;

/// A shard, in key order among the others.
pub(super) struct Stored {
    pub(super) start: Vec<u8>,
    pub(super) end: Vec<u8>,
    pub(super) reached: Option<Vec<u8>>,
    pub(super) is_done: bool,
    /// Its expected entry in the receipt, if it is parked.
    pub(super) parked: Option<Value>,
    pub(super) acquired: u64,
    pub(super) spawned: u64,
    pub(super) token: Token,
}

/// What a cursor states about results: a version, four counts, the number of extents, each with
/// shard, fence, length, items (all `u64`, little-endian) and a digest, and the connector's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) items: u64,
    pub(super) bytes: u64,
    pub(super) retries: u64,
    pub(super) failed: u64,
    pub(super) extents: Vec<TokenExtent>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenExtent {
    pub(super) shard: u64,
    pub(super) fence: u64,
    pub(super) length: u64,
    pub(super) items: u64,
    pub(super) digest: [u8; 32],
}

/// Start and end of a range.
pub(super) type Ends = (Vec<u8>, Vec<u8>);

/// Reads the shards, and checks that they are contiguous and not active.
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
            Some(bytes) => parse_token(bytes).unwrap_or_else(|| {
                findings.add(format!("shard {id}: its cursor's token cannot be read"));
                Token::default()
            }),
            None => Token::default(),
        };
        match record.head.status {
            // Its children cover its range.
            ShardStatus::Split => continue,
            ShardStatus::Active => findings.add(format!("shard {id} is still active")),
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

/// Checks that the shards cover the whole range.
pub(super) fn compare_ends(shards: &[Stored], whole: &Ends, findings: &mut Findings) {
    let (Some(first), Some(last)) = (shards.first(), shards.last()) else { return };
    for (found, expected, what) in [(&first.start, &whole.0, "start"), (&last.end, &whole.1, "end")]
    {
        if found != expected {
            let (found, expected) = (hex::encode(found), hex::encode(expected));
            findings.add(format!("the shards {what} at {found} instead of {expected}"));
        }
    }
}

/// Start and end of the first ranges of a run.
pub(super) fn whole(ranges: &[KeyRange], findings: &mut Findings) -> Ends {
    for (left, right) in ranges.iter().zip(ranges.iter().skip(1)) {
        if left.end != right.start {
            findings.add("the first ranges of the run are not contiguous");
        }
    }
    let start = ranges.first().map(|range| range.start.clone());
    let end = ranges.last().map(|range| range.end.clone());
    (start.unwrap_or_default(), end.unwrap_or_default())
}

/// A key as JSON: text, or base64 if it is not UTF-8.
fn key_json(key: &[u8]) -> Value {
    match str::from_utf8(key) {
        Ok(text) => json!(text),
        Err(_) => json!({ "base64": base64::engine::general_purpose::STANDARD.encode(key) }),
    }
}

/// Parses a token. None if it is malformed.
fn parse_token(token: &[u8]) -> Option<Token> {
    let mut at = 0;
    let mut number = |size: usize| {
        let bytes = token.get(at..at + size)?;
        at += size;
        Some(bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    if number(1)? != 2 {
        return None;
    }
    let (items, bytes, retries, failed) = (number(8)?, number(8)?, number(8)?, number(8)?);
    let count = number(4)?;
    let mut extents = Vec::new();
    for _ in 0..count {
        let (shard, fence) = (number(8)?, number(8)?);
        let (length, items) = (number(8)?, number(8)?);
        let mut digest = [0; 32];
        for byte in &mut digest {
            *byte = u8::try_from(number(1)?).ok()?;
        }
        extents.push(TokenExtent { shard, fence, length, items, digest });
    }
    Some(Token { items, bytes, retries, failed, extents })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(start: &[u8], end: &[u8]) -> Stored {
        Stored {
            start: start.to_vec(),
            end: end.to_vec(),
            reached: None,
            is_done: true,
            parked: None,
            acquired: 1,
            spawned: 0,
            token: Token::default(),
        }
    }

    fn range(start: &[u8], end: &[u8]) -> KeyRange {
        KeyRange { start: start.to_vec(), end: end.to_vec() }
    }

    #[test]
    fn shards_that_miss_an_end_of_the_manifest_are_found() {
        let manifest = [range(b"a", b"m"), range(b"m", b"z")];
        for (shards, findings) in [
            (vec![stored(b"a", b"k"), stored(b"k", b"z")], 0),
            (vec![stored(b"b", b"m"), stored(b"m", b"z")], 1),
            (vec![stored(b"a", b"m")], 1),
            (vec![stored(b"c", b"d")], 2),
        ] {
            let mut found = Findings::default();
            let whole = whole(&manifest, &mut found);
            compare_ends(&shards, &whole, &mut found);
            assert_eq!(found.kept().len(), findings, "{found:?}");
        }
    }

    #[test]
    fn a_manifest_with_a_gap_or_an_overlap_is_found() {
        for second in [range(b"n", b"z"), range(b"l", b"z")] {
            let mut found = Findings::default();
            whole(&[range(b"a", b"m"), second], &mut found);
            assert_eq!(found.kept().len(), 1);
        }
    }
}
