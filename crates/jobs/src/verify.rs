//! Verification of a receipt.
//!
//! The receipt is computed from cursors. The verification reads the result file line by line and
//! compares it with a new listing of the source. Ranges and digests come from the store. It shares
//! no code with the writer of the receipt, not even the decoder of tokens.

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
use crate::output::{LONG_OUTPUTS, shown};
use crate::source::AnyConnector;

/// Violations that the verification found.
#[derive(Debug, Default)]
pub struct Findings {
    kept: Vec<String>,
    more: u64,
    notes: Vec<String>,
}

impl Findings {
    const KEPT: usize = 50;

    /// Adds a violation.
    pub fn add(&mut self, finding: impl Into<String>) {
        if self.kept.len() < Self::KEPT {
            self.kept.push(finding.into());
        } else {
            self.more += 1;
        }
    }

    /// Adds a note, which is not a violation.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Whether there are no violations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The first violations.
    #[must_use]
    pub fn kept(&self) -> &[String] {
        &self.kept
    }

    /// The notes.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Number of further violations.
    #[must_use]
    pub const fn more(&self) -> u64 {
        self.more
    }
}

/// The files of a run.
pub struct Written<'a> {
    /// The folder of the result file and the receipt.
    pub folder: &'a Path,
    /// The path or URL of the result file.
    pub results: String,
    /// The folder of this machine's segments, if each machine has its own.
    pub own_segments: Option<PathBuf>,
    /// The object store of the results, if they are in one.
    pub objects: Option<&'a ObjectSink>,
    /// The journals of its processes.
    pub journals: Vec<Vec<u8>>,
}

/// Compares receipt, results, store and source.
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
    let outputs = match written.objects {
        None => written.folder.join(LONG_OUTPUTS).join(shown(run)),
        Some(objects) => objects.url_of(&format!("{LONG_OUTPUTS}/{}", shown(run))).into(),
    };
    long_outputs::compare(&results_path, &outputs, written.objects, &mut findings).await?;
    let failed: u64 = stored.iter().map(|shard| shard.token.failed).sum();
    if failed != read.failed && !location.is_local() {
        findings
            .add(format!("{failed} items failed, but the results have {} failures", read.failed));
    }
    let expected = receipt::Expected {
        name,
        record: &record,
        description,
        shards: &stored,
        results: &read,
        results_location: &written.results,
        is_local: location.is_local(),
        journals: &receipt::add_up(&written.journals),
    };
    let receipt = written.folder.join("receipt.json");
    let admitted = receipt::compare(&receipt, &expected, &mut findings)?;
    if let Some(source) = source {
        let missing = match record.config.cursor_semantics {
            _ if location.is_local() => Missing::Elsewhere,
            CursorSemantics::Dispatched => Missing::Expected,
            CursorSemantics::Completed => Missing::Fault,
        };
        let claim = Claim { whole, missing, admitted };
        let findings = &mut findings;
        listing::compare(source, description, &stored, &results_path, &claim, findings).await?;
    }
    Ok(findings)
}
