//! Finding out what a run covered, another way than the receipt was written.
//!
//! The receipt is added up from cursors. This reads the result file line by line beside a fresh
//! listing of the source, and the shards' ranges and digests from the store; it shares no code with
//! what wrote the receipt, down to the reading of the token.

mod listing;
mod long_outputs;
mod receipt;
mod results;
mod shards;
mod uncovered;

use std::path::{Path, PathBuf};

use shardwright_contracts::{CursorSemantics, RunId};
use shardwright_coordination::{AsyncRunManagement as _, RunName};

use self::listing::{Claim, Missing};
use self::results::ResultLocation;
use crate::Coordinator;
use crate::TENANT;
use crate::description::Description;
use crate::objects::ObjectSink;
use crate::source::AnyConnector;

/// What does not hold.
#[derive(Debug, Default)]
pub struct Findings {
    kept: Vec<String>,
    more: u64,
    notes: Vec<String>,
}

impl Findings {
    const KEPT: usize = 50;

    /// Adds what does not hold.
    pub fn add(&mut self, finding: impl Into<String>) {
        if self.kept.len() < Self::KEPT {
            self.kept.push(finding.into());
        } else {
            self.more += 1;
        }
    }

    /// Adds what is worth knowing and no fault.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Whether everything holds.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// What does not hold: the first of it.
    #[must_use]
    pub fn kept(&self) -> &[String] {
        &self.kept
    }

    /// What is worth knowing and no fault.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How much more does not hold.
    #[must_use]
    pub const fn more(&self) -> u64 {
        self.more
    }
}

/// What the run has left behind.
pub struct Written<'a> {
    /// Where it can be read.
    pub folder: &'a Path,
    /// What the result file is called.
    pub results: String,
    /// The folder of this machine's segments, if others have folders of their own.
    pub own_segments: Option<PathBuf>,
    /// The object store in which it is, if it is in one.
    pub objects: Option<&'a ObjectSink>,
    /// The journals of its processes.
    pub journals: Vec<Vec<u8>>,
}

/// Compares everything with everything.
pub async fn verify(
    coordinator: &Coordinator,
    name: RunName,
    run: RunId,
    description: &Description,
    written: &Written<'_>,
    source: Option<&AnyConnector>,
) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    let record = coordinator.get_run(TENANT, run).await?;
    let stored = shards::read(coordinator, run, &mut findings).await?;
    let results_path = written.folder.join("results.jsonl");
    let whole = shards::whole(&description.ranges()?, &mut findings);
    shards::compare_ends(&stored, &whole, &mut findings);
    let own_segments = written.own_segments.clone();
    let location = own_segments.map_or(ResultLocation::Shared, ResultLocation::Local);
    let read = results::read(&results_path, &stored, &location, &mut findings)?;
    long_outputs::compare(&results_path, written.objects, &mut findings).await?;
    let failed: u64 = stored.iter().map(|shard| shard.token.failed).sum();
    if failed != read.failed && !location.is_local() {
        findings.add(format!("{failed} items failed, and the results say {}", read.failed));
    }
    let truth = receipt::Truth {
        name,
        record: &record,
        description,
        shards: &stored,
        results: &read,
        results_place: &written.results,
        is_local: location.is_local(),
        journals: &receipt::add_up(&written.journals),
    };
    let receipt = written.folder.join("receipt.json");
    let admitted = receipt::compare(&receipt, &truth, &mut findings)?;
    if let Some(source) = source {
        let missing = match record.config.cursor_semantics {
            _ if location.is_local() => Missing::Elsewhere,
            CursorSemantics::Dispatched => Missing::Foretold,
            CursorSemantics::Completed => Missing::Fault,
        };
        let claim = Claim { whole, missing, admitted };
        let findings = &mut findings;
        listing::compare(source, description, &stored, &results_path, &claim, findings).await?;
    }
    Ok(findings)
}
