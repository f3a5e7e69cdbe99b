//! The receipt, field by field.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use shardwright_contracts::CursorSemantics;
use shardwright_coordination::{RunName, RunRecord};

use super::Findings;
use super::results::Read;
use super::shards::Stored;
use crate::description::Description;

/// What the receipt ought to say.
pub(super) struct Truth<'a> {
    pub(super) name: RunName,
    pub(super) record: &'a RunRecord,
    pub(super) description: &'a Description,
    pub(super) shards: &'a [Stored],
    pub(super) results: &'a Read,
    pub(super) results_place: &'a str,
}

/// Compares the receipt with what was found out.
pub(super) fn compare(
    path: &Path,
    truth: &Truth<'_>,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let bytes =
        std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let found: Value = serde_json::from_slice(&bytes)
        .with_context(|| format!("{} is no receipt", path.display()))?;
    let expected = truth.fields();
    let (Some(found), Some(expected)) = (found.as_object(), expected.as_object()) else {
        findings.add("the receipt has no fields");
        return Ok(());
    };
    for (field, expected) in expected {
        let found = found.get(field).unwrap_or(&Value::Null);
        if found != expected {
            findings.add(format!("receipt: {field} is {found}, and ought to be {expected}"));
        }
    }
    for field in found.keys().filter(|field| !expected.contains_key(*field)) {
        findings.add(format!("receipt: nobody knows of a field {field}"));
    }
    Ok(())
}

impl Truth<'_> {
    fn fields(&self) -> Value {
        let Self { name, record, description, shards, results, .. } = self;
        let sum = |field: fn(&Stored) -> u64| shards.iter().map(field).sum::<u64>();
        let dispatched = record.config.cursor_semantics == CursorSemantics::Dispatched;
        // Results are counted in the file; what the cursors say has been compared with it.
        let keys = if dispatched { sum(|it| it.token.items) } else { results.lines };
        let retries = if dispatched { sum(|it| it.token.retries) } else { results.retries };
        json!({
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
            "bytes": results.item_bytes,
            "retries": retries,
            "failed": results.failed,
            "acquired": sum(|shard| shard.acquired),
            "splits": sum(|shard| shard.spawned),
            "coverage": {
                "start": shards.first().map(|shard| hex::encode(&shard.start)),
                "end": shards.last().map(|shard| hex::encode(&shard.end)),
                "ranges": shards.len(),
                "gaps": 0,
                "overlaps": 0,
                "done": sum(|shard| u64::from(shard.is_done)),
            },
            "parked": shards.iter().filter_map(|shard| shard.parked.clone()).collect::<Vec<_>>(),
            "results": {
                "file": self.results_place,
                "bytes": results.file_bytes,
                "blake3": results.digest,
            },
        })
    }
}
