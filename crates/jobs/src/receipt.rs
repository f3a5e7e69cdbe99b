//! The receipt: what a run covered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use shardwright_contracts::{CursorSemantics, RunId};
use shardwright_coordination::{RunName, RunRecord, ShardRecord, ShardStatus};
use shardwright_process::KeyText;
use shardwright_worker::extent::TokenEnvelope;

use crate::description::Description;
use crate::journal::{Tally, Uncovered, Why};
use crate::output::{Built, shown};
use crate::readable::{failure_line, printable, readable};

/// What a run covered. `shardwright verify` recomputes it in another way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The version of the format.
    pub version: u32,
    /// The id of the run.
    pub run: String,
    /// Its name.
    pub name: String,
    /// The name of its source.
    pub source: String,
    pub(crate) fingerprint: String,
    /// Time when a source that may change was listed, in milliseconds since 1970.
    pub(crate) listed_at_ms: Option<u64>,
    /// The command.
    pub command: Vec<KeyText<'static>>,
    /// Whether the command is one line for a shell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
    /// The text that stands for the item in the command, if it is not `{}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<KeyText<'static>>,
    /// `completed`, or `dispatched` if items in progress at a kill may be missing.
    pub cursor: String,
    /// Time when the run was created, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// Time when the run ended, in milliseconds since 1970.
    pub ended_at_ms: Option<u64>,
    /// Keys whose result is in the result file.
    pub keys: u64,
    /// Their bytes in the source.
    pub bytes: u64,
    /// Number of retries of items.
    pub retries: u64,
    /// Retried writes that took effect once.
    pub(crate) replays_absorbed: u64,
    /// Rejected writes of replaced workers.
    pub(crate) stale_writes_refused: u64,
    /// Keys whose result is a failure. With `completed` cursors, failing keys are parked instead.
    pub failed: u64,
    /// Number of acquires of shards.
    pub acquired: u64,
    /// Shards that were split off.
    pub splits: u64,
    pub(crate) coverage: Coverage,
    /// Ranges that are not covered, because an item failed.
    pub parked: Vec<ParkedItem>,
    /// Skipped entries of the source, per reason. Earlier receipts call it `passed_over`.
    #[serde(alias = "passed_over")]
    pub skipped: BTreeMap<Why, u64>,
    /// The first thousand entries that could not be read, and may contain items.
    pub(crate) uncovered: Vec<Uncovered>,
    /// The result file.
    pub results: ResultFile,
}

/// The ranges of the shards, which cover each key once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Coverage {
    /// Start of the first range, in hex.
    pub start: String,
    /// End of the last range, in hex.
    pub end: String,
    /// Each range starts where the one before ends.
    pub ranges: Vec<Range>,
    pub(crate) gaps: u64,
    pub(crate) overlaps: u64,
    /// Number of completed ranges.
    pub done: u64,
}

/// The keys of one shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Start of the range, in hex.
    pub start: String,
    /// End of the range, in hex.
    pub end: String,
    /// Committed keys.
    pub keys: u64,
    /// Whether the range is completed.
    pub done: bool,
}

/// A range that is not covered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParkedItem {
    /// The shard.
    pub shard: String,
    /// The last committed key.
    pub after: Option<KeyText<'static>>,
    /// The end of the range.
    pub end: KeyText<'static>,
    /// The reason.
    pub reason: String,
    /// The item and its error.
    pub detail: String,
}

/// The result file, as it was when the receipt was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultFile {
    /// Its path or URL.
    pub file: String,
    /// Keys whose results are in it.
    pub keys: u64,
    /// Keys whose results are on other machines.
    pub elsewhere: u64,
    /// Its size in bytes.
    pub bytes: u64,
    pub(crate) blake3: String,
}

impl Receipt {
    /// Builds the receipt from the store. `shards` are in key order.
    pub(crate) fn new(
        name: RunName,
        record: &RunRecord,
        description: &Description,
        shards: &[ShardRecord],
        built: &Built,
        tally: Tally,
    ) -> anyhow::Result<Self> {
        let run: RunId = record.run;
        let (mut keys, mut bytes, mut retries, mut failed) = (0, 0, 0, 0);
        let (mut acquired, mut splits) = (0, 0);
        for shard in shards {
            let envelope = TokenEnvelope::decode(shard.cursor.as_update().token())?;
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
        let item = description.placeholders.unusual_item();
        Ok(Self {
            version: 1,
            run: shown(run),
            name: name.to_string(),
            source: description.source.shown(),
            fingerprint: description.fingerprint.clone(),
            listed_at_ms: description.listed_at_ms,
            command: description.command.clone(),
            shell: description.shell,
            placeholder: item.map(|item| KeyText::new(&item).into_owned()),
            cursor: cursor.to_owned(),
            started_at_ms: record.created_at.as_millis(),
            ended_at_ms: record.completed_at.map(|ended| ended.as_millis()),
            keys,
            bytes,
            retries: retries + tally.retries,
            replays_absorbed: tally.replays,
            stale_writes_refused: tally.refused,
            failed,
            acquired,
            splits,
            coverage: coverage(shards)?,
            parked: shards.iter().filter_map(parked).collect(),
            skipped: tally.skipped,
            uncovered: tally.uncovered,
            results: ResultFile {
                file: built.location.clone(),
                keys: built.items,
                elsewhere: built.elsewhere,
                bytes: built.bytes,
                blake3: built.digest.clone(),
            },
        })
    }

    /// What the receipt proves, as text.
    pub fn proof(&self) -> Vec<String> {
        let Coverage { ranges, gaps, overlaps, done, .. } = &self.coverage;
        vec![
            format!(
                "{done} of {} ranges done, {gaps} gaps, {overlaps} overlaps; {} splits, {} \
                 acquires",
                ranges.len(),
                self.splits,
                self.acquired
            ),
            format!(
                "{} keys, each committed once; {} retries, {} duplicate writes ignored, {} stale \
                 writes rejected",
                self.keys, self.retries, self.replays_absorbed, self.stale_writes_refused
            ),
        ]
    }

    /// The parked items, each with its failure on one line.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        self.parked.iter().map(|item| failure_line(&item.detail))
    }

    /// Entries that could not be read, each with the reason on one line.
    pub fn unread_entries(&self) -> impl Iterator<Item = String> {
        self.uncovered.iter().map(|Uncovered { key, why, detail }| {
            let key = readable(&key.to_bytes().unwrap_or_default());
            let detail = printable(detail.as_deref().unwrap_or(why.word()));
            format!("{key}: {detail}")
        })
    }

    /// What a reader of the results should know.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.cursor == "dispatched" {
            notes.push(
                "cursors moved at dispatch: items in progress during a kill have no result".into(),
            );
        }
        if self.results.elsewhere > 0 {
            let here = self.results.keys;
            let whole = here + self.results.elsewhere;
            notes.push(format!("this machine has {here} of {whole} results"));
        }
        let skipped = self.skipped.iter().filter(|(why, _)| !why.is_uncovered());
        let skipped: Vec<String> =
            skipped.map(|(why, count)| format!("{count} {}", why.word())).collect();
        if !skipped.is_empty() {
            notes.push(format!("skipped: {}", skipped.join(", ")));
        }
        notes
    }

    /// Number of entries that could not be read, and may contain items.
    pub fn unread(&self) -> u64 {
        let unread = self.skipped.iter().filter(|(why, _)| why.is_uncovered());
        unread.map(|(_, count)| count).sum()
    }

    /// Whether every item was covered and succeeded.
    pub fn is_whole(&self) -> bool {
        self.parked.is_empty() && self.failed == 0 && self.unread() == 0
    }
}

fn coverage(shards: &[ShardRecord]) -> anyhow::Result<Coverage> {
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
    let ranges: anyhow::Result<Vec<Range>> = leaves.into_iter().map(range).collect();
    let ranges = ranges?;
    let done = ranges.iter().filter(|range| range.done).count() as u64;
    Ok(Coverage { start, end, ranges, gaps, overlaps, done })
}

fn range(shard: &ShardRecord) -> anyhow::Result<Range> {
    let spec = shard.spec.as_spec_ref();
    Ok(Range {
        start: hex::encode(spec.start()),
        end: hex::encode(spec.end()),
        keys: TokenEnvelope::decode(shard.cursor.as_update().token())?.items,
        done: shard.head.status == ShardStatus::Done,
    })
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
