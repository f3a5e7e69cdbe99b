//! The receipt, field by field, and the sum of the journals.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use shardwright_contracts::CursorSemantics;
use shardwright_coordination::{RunName, RunRecord};
use shardwright_process::KeyText;

use super::Findings;
use super::results::Read;
use super::shards::Stored;
use super::uncovered::Admitted;
use crate::description::Description;
use crate::output::read_file;

/// Unreadable entries that a receipt names.
const NAMED: usize = 1_000;

/// The sum of the journals of the processes: lines of JSON, each with a kind.
#[derive(Debug, Default)]
pub(super) struct Journals {
    pub(super) skipped: BTreeMap<String, u64>,
    pub(super) uncovered: Vec<Value>,
    pub(super) retries: u64,
    pub(super) replays: u64,
    pub(super) refused: u64,
}

/// Adds up the journals, in the order of their names.
pub(super) fn add_up(journals: &[Vec<u8>]) -> Journals {
    let (mut all, mut known) = (Journals::default(), BTreeSet::new());
    for line in journals.iter().flat_map(|journal| journal.split(|byte| *byte == b'\n')) {
        // A kill may have cut the last line.
        let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
        let field = |name| line.get(name).unwrap_or(&Value::Null);
        let count = field("count").as_u64().unwrap_or(1);
        let why = field("why").as_str().unwrap_or_default().to_owned();
        match field("kind").as_str() {
            Some("passed_over") => {
                if !known.insert((why.clone(), field("key").to_string())) {
                    continue;
                }
                if matches!(&*why, "unreadable" | "too_long") && all.uncovered.len() < NAMED {
                    let (key, detail) = (field("key"), field("detail"));
                    all.uncovered.push(json!({ "key": key, "why": why, "detail": detail }));
                }
                *all.skipped.entry(why).or_default() += 1;
            }
            Some("uncounted") => *all.skipped.entry(why).or_default() += count,
            Some("retried") => all.retries += count,
            Some("replayed") => all.replays += 1,
            Some("refused") => all.refused += 1,
            _ => {}
        }
    }
    all
}

/// The expected content of the receipt.
pub(super) struct Expected<'a> {
    pub(super) name: RunName,
    pub(super) record: &'a RunRecord,
    pub(super) description: &'a Description,
    pub(super) shards: &'a [Stored],
    pub(super) results: &'a Read,
    pub(super) results_location: &'a str,
    /// Whether the results are only those of this machine.
    pub(super) is_local: bool,
    pub(super) journals: &'a Journals,
}

/// Compares the receipt with the expected content. Returns the entries that it reports as
/// unreadable.
pub(super) fn compare(
    path: &Path,
    expected: &Expected<'_>,
    findings: &mut Findings,
) -> anyhow::Result<Admitted> {
    let bytes = read_file(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut found: Value = serde_json::from_slice(&bytes)
        .with_context(|| format!("{} is not a receipt", path.display()))?;
    let expected = expected.fields();
    let (Some(found), Some(expected)) = (found.as_object_mut(), expected.as_object()) else {
        findings.add("the receipt has no fields");
        return Ok(Admitted::default());
    };
    // Earlier receipts have another name for it.
    if !found.contains_key("skipped")
        && let Some(skipped) = found.remove("passed_over")
    {
        found.insert("skipped".to_owned(), skipped);
    }
    compare_fields("", found, expected, findings);
    Ok(Admitted::by(found))
}

fn compare_values(field: &str, found: &Value, expected: &Value, findings: &mut Findings) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            compare_fields(&format!("{field}."), found, expected, findings);
        }
        (Value::Array(found), Value::Array(expected)) => {
            if found.len() != expected.len() {
                let (found, expected) = (found.len(), expected.len());
                findings.add(format!("receipt: {field} has {found} entries instead of {expected}"));
            }
            for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                compare_values(&format!("{field}[{at}]"), found, expected, findings);
            }
        }
        (found, expected) if found != expected => {
            findings.add(format!("receipt: {field} is {found} instead of {expected}"));
        }
        _ => {}
    }
}

fn compare_fields(
    within: &str,
    found: &Map<String, Value>,
    expected: &Map<String, Value>,
    findings: &mut Findings,
) {
    for (field, expected) in expected {
        let found = found.get(field).unwrap_or(&Value::Null);
        compare_values(&format!("{within}{field}"), found, expected, findings);
    }
    for field in found.keys().filter(|field| !expected.contains_key(*field)) {
        findings.add(format!("receipt: unknown field {within}{field}"));
    }
}

impl Expected<'_> {
    fn fields(&self) -> Value {
        let Self { name, record, description, shards, results, .. } = self;
        let sum = |field: fn(&Stored) -> u64| shards.iter().map(field).sum::<u64>();
        let dispatched = record.config.cursor_semantics == CursorSemantics::Dispatched;
        // Results are counted in the file, which was compared with the cursors. Where each machine
        // has its own file, only the cursors count all results.
        let by_cursors = dispatched || self.is_local;
        let keys = if by_cursors { sum(|it| it.token.items) } else { results.lines };
        let retries = if by_cursors { sum(|it| it.token.retries) } else { results.retries };
        let bytes = if self.is_local { sum(|it| it.token.bytes) } else { results.item_bytes };
        let failed = if self.is_local { sum(|it| it.token.failed) } else { results.failed };
        let mut fields = json!({
            "version": 1,
            "run": record.run.to_string(),
            "name": name.as_str(),
            "source": description.source.shown(),
            "fingerprint": description.fingerprint,
            "listed_at_ms": description.listed_at_ms,
            "command": description.command,
            "cursor": if dispatched { "dispatched" } else { "completed" },
            "started_at_ms": record.created_at.as_millis(),
            "ended_at_ms": record.completed_at.map(|ended| ended.as_millis()),
            "keys": keys,
            "bytes": bytes,
            "retries": retries + self.journals.retries,
            "replays_absorbed": self.journals.replays,
            "stale_writes_refused": self.journals.refused,
            "failed": failed,
            "acquired": sum(|shard| shard.acquired),
            "splits": sum(|shard| shard.spawned),
            "coverage": {
                "start": shards.first().map(|shard| hex::encode(&shard.start)),
                "end": shards.last().map(|shard| hex::encode(&shard.end)),
                "ranges": shards.iter().map(range).collect::<Vec<_>>(),
                "gaps": 0,
                "overlaps": 0,
                "done": sum(|shard| u64::from(shard.is_done)),
            },
            "parked": shards.iter().filter_map(|shard| shard.parked.clone()).collect::<Vec<_>>(),
            "skipped": self.journals.skipped,
            "uncovered": self.journals.uncovered,
            "results": {
                "file": self.results_location,
                "keys": results.lines,
                "elsewhere": results.elsewhere,
                "bytes": results.file_bytes,
                "blake3": results.digest,
            },
        });
        // Absent where they have their usual values.
        let item = description.placeholders.unusual_item();
        let unusual = [
            description.shell.then(|| ("shell".to_owned(), json!(true))),
            item.map(|item| ("placeholder".to_owned(), json!(KeyText::new(&item)))),
        ];
        if let Some(fields) = fields.as_object_mut() {
            fields.extend(unusual.into_iter().flatten());
        }
        fields
    }
}

fn range(shard: &Stored) -> Value {
    json!({
        "start": hex::encode(&shard.start),
        "end": hex::encode(&shard.end),
        "keys": shard.token.items,
        "done": shard.is_done,
    })
}
