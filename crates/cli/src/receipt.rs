//! What a run covered, on record.

use serde::{Deserialize, Serialize};
use shardwright_contracts::{CursorSemantics, RunId};
use shardwright_coordination::{RunName, RunRecord, ShardRecord, ShardStatus};
use shardwright_worker::extent::Envelope;
use shardwright_worker::process::KeyText;

use crate::description::Description;
use crate::output::{Built, shown};

/// What a run covered. `shardwright verify` finds out the same another way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) version: u32,
    pub(crate) run: String,
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) fingerprint: String,
    /// When a source that may change was listed, in milliseconds since 1970.
    pub(crate) listed_at_ms: Option<u64>,
    pub(crate) command: Vec<KeyText<'static>>,
    /// `completed`, or `dispatched` if what was under way at a kill may be missing.
    pub(crate) cursor: String,
    pub(crate) started_at_ms: u64,
    pub(crate) ended_at_ms: Option<u64>,
    /// Keys whose result is in the result file.
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
    pub(crate) retries: u64,
    /// Keys whose result is that they failed; with cursors that are `completed` they are parked.
    pub(crate) failed: u64,
    /// How often a shard was taken up.
    pub(crate) acquired: u64,
    /// Shards that were made out of others.
    pub(crate) splits: u64,
    pub(crate) coverage: Coverage,
    pub(crate) parked: Vec<ParkedItem>,
    pub(crate) results: ResultFile,
}

/// That the shards' ranges are the whole, each key in just one of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Coverage {
    /// The first key that could be there, in hex.
    pub(crate) start: String,
    /// The first behind all that could be there, in hex.
    pub(crate) end: String,
    pub(crate) ranges: u64,
    pub(crate) gaps: u64,
    pub(crate) overlaps: u64,
    /// Ranges in which everything is done.
    pub(crate) done: u64,
}

/// A range that is not covered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ParkedItem {
    pub(crate) shard: String,
    /// The key behind which nothing is done.
    pub(crate) after: Option<KeyText<'static>>,
    /// The end of the range.
    pub(crate) end: KeyText<'static>,
    pub(crate) reason: String,
    pub(crate) detail: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResultFile {
    pub(crate) file: String,
    pub(crate) bytes: u64,
    pub(crate) blake3: String,
}

impl Receipt {
    /// Writes down what the store says; `shards` are in key order.
    pub(crate) fn new(
        name: RunName,
        record: &RunRecord,
        description: &Description,
        shards: &[ShardRecord],
        built: &Built,
    ) -> anyhow::Result<Self> {
        let run: RunId = record.run;
        let (mut keys, mut bytes, mut retries, mut failed) = (0, 0, 0, 0);
        let (mut acquired, mut splits) = (0, 0);
        for shard in shards {
            let envelope = Envelope::decode(shard.cursor.as_update().token())?;
            keys += envelope.items;
            bytes += envelope.bytes;
            retries += envelope.retries;
            failed += envelope.failed;
            acquired += u64::from(shard.head.acquire_count);
            splits += shard.head.spawned.len() as u64;
        }
        let cursor = match record.config.cursor_semantics {
            CursorSemantics::Completed => "completed",
            CursorSemantics::Dispatched => "dispatched",
        };
        Ok(Self {
            version: 1,
            run: shown(run),
            name: name.to_string(),
            source: description.source.shown(),
            fingerprint: description.fingerprint.clone(),
            listed_at_ms: description.listed_at_ms,
            command: description.command.clone(),
            cursor: cursor.to_owned(),
            started_at_ms: record.created_at.as_millis(),
            ended_at_ms: record.completed_at.map(|ended| ended.as_millis()),
            keys,
            bytes,
            retries,
            failed,
            acquired,
            splits,
            coverage: coverage(shards),
            parked: shards.iter().filter_map(parked).collect(),
            results: ResultFile {
                file: built.place.clone(),
                bytes: built.bytes,
                blake3: built.digest.clone(),
            },
        })
    }

    /// A few lines for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Coverage { ranges, gaps, overlaps, done, .. } = &self.coverage;
        let mut lines = vec![
            format!("{} keys, {} bytes; each committed once", self.keys, self.bytes),
            format!(
                "{done} of {ranges} ranges done, {gaps} gaps, {overlaps} overlaps; {} splits, \
                 {} retries, shards taken up {} times",
                self.splits, self.retries, self.acquired
            ),
        ];
        if self.cursor == "dispatched" {
            lines.push(
                "items counted when handed out: those under way at a kill are missing".into(),
            );
        }
        if self.failed > 0 {
            lines.push(format!("{} failed; their results say why", self.failed));
        }
        if !self.parked.is_empty() {
            lines.push(format!(
                "{} not covered (shardwright parked {}):",
                self.parked.len(),
                self.name
            ));
        }
        for item in self.parked.iter().take(10) {
            lines.push(format!("  {} {}: {}", item.shard, item.reason, first_line(&item.detail)));
        }
        lines.push(format!("results  {}", self.results.file));
        lines
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn coverage(shards: &[ShardRecord]) -> Coverage {
    let leaves: Vec<_> =
        shards.iter().filter(|shard| shard.head.status != ShardStatus::Split).collect();
    let (mut gaps, mut overlaps) = (0, 0);
    for pair in leaves.windows(2) {
        let [left, right] = pair else { continue };
        match left.spec.as_spec_ref().end().cmp(right.spec.as_spec_ref().start()) {
            std::cmp::Ordering::Less => gaps += 1,
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => overlaps += 1,
        }
    }
    let start =
        leaves.first().map_or(String::new(), |leaf| hex::encode(leaf.spec.as_spec_ref().start()));
    let end =
        leaves.last().map_or(String::new(), |leaf| hex::encode(leaf.spec.as_spec_ref().end()));
    let done = leaves.iter().filter(|leaf| leaf.head.status == ShardStatus::Done).count() as u64;
    Coverage { start, end, ranges: leaves.len() as u64, gaps, overlaps, done }
}

fn parked(shard: &ShardRecord) -> Option<ParkedItem> {
    let park = shard.head.park.as_ref()?;
    let owned = |bytes: &[u8]| KeyText::new(bytes).into_owned();
    Some(ParkedItem {
        shard: shard.head.key.shard.to_string(),
        after: shard.cursor.as_update().last_key().map(owned),
        end: owned(shard.spec.as_spec_ref().end()),
        reason: format!("{:?}", park.reason),
        detail: String::from_utf8_lossy(&park.detail).into_owned(),
    })
}
