//! What a run covered, on record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use shardwright_contracts::{CursorSemantics, RunId};
use shardwright_coordination::{RunName, RunRecord, ShardRecord, ShardStatus};
use shardwright_process::KeyText;
use shardwright_worker::extent::TokenEnvelope;

use crate::description::Description;
use crate::journal::{Tally, Uncovered, Why};
use crate::output::{Built, shown};
use crate::readable::readable;

/// What a run covered. `shardwright verify` finds out the same another way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The version of the format.
    pub version: u32,
    /// The id of the run.
    pub run: String,
    /// Its name.
    pub name: String,
    /// What its source is called.
    pub source: String,
    pub(crate) fingerprint: String,
    /// When a source that may change was listed, in milliseconds since 1970.
    pub(crate) listed_at_ms: Option<u64>,
    /// What was run.
    pub command: Vec<KeyText<'static>>,
    /// `completed`, or `dispatched` if what was under way at a kill may be missing.
    pub cursor: String,
    pub(crate) started_at_ms: u64,
    /// When the run ended, in milliseconds since 1970.
    pub ended_at_ms: Option<u64>,
    /// Keys whose result is in the result file.
    pub keys: u64,
    /// Bytes of the source that they stand for.
    pub bytes: u64,
    /// How often an item was tried again.
    pub retries: u64,
    /// Writes that were repeated and took effect once.
    pub(crate) replays_absorbed: u64,
    /// Writes of workers that had been replaced.
    pub(crate) stale_writes_refused: u64,
    /// Keys whose result is that they failed; with cursors that are `completed` they are parked.
    pub failed: u64,
    /// How often a shard was taken up.
    pub acquired: u64,
    /// Shards that were made out of others.
    pub splits: u64,
    pub(crate) coverage: Coverage,
    /// What is not covered, because it failed.
    pub parked: Vec<ParkedItem>,
    /// How many things in the source were no items, by why.
    pub passed_over: BTreeMap<Why, u64>,
    /// Those of them in which items may be that nobody has seen: the first thousand.
    pub(crate) uncovered: Vec<Uncovered>,
    /// The result file.
    pub results: ResultFile,
}

/// That the shards' ranges are the whole, each key in just one of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Coverage {
    /// The first key that could be there, in hex.
    pub start: String,
    /// The first behind all that could be there, in hex.
    pub end: String,
    /// Each begins where the one before it ends.
    pub ranges: Vec<Range>,
    pub(crate) gaps: u64,
    pub(crate) overlaps: u64,
    /// Ranges in which everything is done.
    pub done: u64,
}

/// The keys of one shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Its first key, in hex.
    pub start: String,
    /// The first behind it, in hex.
    pub end: String,
    /// How many keys of it are committed.
    pub keys: u64,
    /// Whether everything in it is.
    pub done: bool,
}

/// A range that is not covered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParkedItem {
    /// The shard.
    pub shard: String,
    /// The key behind which nothing is done.
    pub after: Option<KeyText<'static>>,
    /// The end of the range.
    pub end: KeyText<'static>,
    /// Why, in a word.
    pub reason: String,
    /// What is known about it.
    pub detail: String,
}

/// The result file, as it was when the receipt was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultFile {
    /// Where it is.
    pub file: String,
    /// Keys whose results are in it.
    pub keys: u64,
    /// Keys whose results other machines have.
    pub elsewhere: u64,
    /// Its size.
    pub bytes: u64,
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
            retries: retries + tally.retries,
            replays_absorbed: tally.replays,
            stale_writes_refused: tally.refused,
            failed,
            acquired,
            splits,
            coverage: coverage(shards)?,
            parked: shards.iter().filter_map(parked).collect(),
            passed_over: tally.passed_over,
            uncovered: tally.uncovered,
            results: ResultFile {
                file: built.place.clone(),
                keys: built.items,
                elsewhere: built.elsewhere,
                bytes: built.bytes,
                blake3: built.digest.clone(),
            },
        })
    }

    /// A few lines for people.
    pub fn lines(&self) -> Vec<String> {
        let Coverage { ranges, gaps, overlaps, done, .. } = &self.coverage;
        let mut lines = vec![
            format!("{} keys, {} bytes; each committed once", self.keys, self.bytes),
            format!(
                "{done} of {} ranges done, {gaps} gaps, {overlaps} overlaps; {} splits, shards \
                 taken up {} times",
                ranges.len(),
                self.splits,
                self.acquired
            ),
            format!(
                "{} retries, {} replays absorbed, {} stale writes refused",
                self.retries, self.replays_absorbed, self.stale_writes_refused
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
        self.tell_passed_over(&mut lines);
        lines.push(format!("results  {}", self.results.file));
        if self.results.elsewhere > 0 {
            let here = self.results.keys;
            let whole = here + self.results.elsewhere;
            lines.push(format!("results of this machine only: {here} of {whole}"));
        }
        lines
    }

    fn tell_passed_over(&self, lines: &mut Vec<String>) {
        let unread = self.unread();
        if unread > 0 {
            let nothing = "and nothing in them is covered";
            lines.push(format!("{unread} places could not be read, {nothing}:"));
        }
        for Uncovered { key, why, detail } in self.uncovered.iter().take(10) {
            let key = readable(&key.to_bytes().unwrap_or_default());
            let detail = detail.as_deref().unwrap_or(why.word());
            lines.push(format!("  {key}: {detail}"));
        }
        let others = self.passed_over.iter().filter(|(why, _)| !why.is_uncovered());
        let others: Vec<String> =
            others.map(|(why, count)| format!("{count} {}", why.word())).collect();
        if !others.is_empty() {
            lines.push(format!("passed over: {}", others.join(", ")));
        }
    }

    /// In how many places items may be that nobody has seen.
    fn unread(&self) -> u64 {
        let unread = self.passed_over.iter().filter(|(why, _)| why.is_uncovered());
        unread.map(|(_, count)| count).sum()
    }

    /// Whether everything that could be there was done.
    pub fn is_whole(&self) -> bool {
        self.parked.is_empty() && self.failed == 0 && self.unread() == 0
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
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
