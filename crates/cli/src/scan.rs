//! What a scan does differently from another run: its job, and what it tells at the end.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::json;
use shardwright_jobs::command::Command;
use shardwright_jobs::description::Description;
use shardwright_jobs::output::{Output, RESULTS, write_whole};
use shardwright_jobs::receipt::Receipt;
use shardwright_jobs::source::AnyConnector;
use shardwright_process::scan::{Report, RuleSet, ScanHandler, ScanRecord, Scanner, Totals};

use crate::arguments::ScanArguments;
use crate::exit::Exit;
use crate::say::write_bytes;
use crate::view::{View, emit};

/// A scan that was asked for.
pub(crate) struct Scan<'a> {
    pub(crate) rules: RuleSet,
    pub(crate) arguments: &'a ScanArguments,
}

impl Scan<'_> {
    /// What is done with each item of a source.
    pub(crate) fn command(&self, source: &AnyConnector) -> anyhow::Result<Command> {
        let job = ScanHandler::new(Scanner::new(self.rules.clone(), self.arguments.secrecy())?);
        Ok(Command::Scan(match source {
            AnyConnector::Objects(objects) => job.with_store(Arc::clone(objects.store())),
            AnyConnector::Tree(_) | AnyConnector::Lines(_) | AnyConnector::Library(_) => job,
        }))
    }

    /// Brings together what was found, and tells it.
    pub(crate) async fn finish(
        &self,
        view: &View,
        description: &Description,
        output: &Output,
        receipt: &Receipt,
        how: &str,
    ) -> anyhow::Result<Exit> {
        // Where results are elsewhere, they are fetched into a folder that is gone in the end.
        let (folder, _fetched) = output.readable().await?;
        let report = self.collect(&folder.join(RESULTS))?;
        let mut written = Vec::new();
        report.write(self.arguments.format, &description.source.base(), &mut written)?;
        if let Some(file) = &self.arguments.report {
            let file = std::path::absolute(file)?;
            write_whole(&file, &written)?;
        } else if !view.is_json() {
            write_bytes(&written);
        }
        if view.is_json() {
            for group in report.found() {
                let mut event = report.line(group);
                if let Some(fields) = event.as_object_mut() {
                    fields.insert("event".to_owned(), "finding".into());
                }
                emit(&event);
            }
            let totals = totals_json(&report);
            emit(&json!({ "event": "finished", "receipt": receipt, "scan": totals }));
        }
        view.concluded(receipt, how, &lines(&report));
        let is_incomplete = report.totals().unreadable > 0 || !receipt.is_whole();
        Ok(match (report.totals().places, is_incomplete) {
            (1.., _) => Exit::Findings,
            (0, true) => Exit::Parked,
            (0, false) => Exit::Done,
        })
    }

    fn collect(&self, path: &Path) -> anyhow::Result<Report<'_>> {
        let open = || format!("{} cannot be read", path.display());
        let mut reader = BufReader::new(File::open(path).with_context(open)?);
        let (mut report, mut line) = (Report::new(&self.rules), Vec::new());
        while {
            line.clear();
            reader.read_until(b'\n', &mut line)?
        } > 0
        {
            let record: ScanRecord<'_> = serde_json::from_slice(&line)
                .with_context(|| format!("{} holds something else", path.display()))?;
            let key = record.key.to_bytes().unwrap_or_default();
            report.add(&key, record.bytes, record.report);
        }
        Ok(report)
    }
}

/// Makes sure that findings can be written to a file, before anything is looked through for them.
pub(crate) fn ensure_writable(file: &Path) -> anyhow::Result<()> {
    let file = std::path::absolute(file)?;
    anyhow::ensure!(!file.is_dir(), "{} is a folder; --report names a file", file.display());
    let folder = file.parent().unwrap_or(&file);
    let tried = tempfile::tempfile_in(folder);
    tried.with_context(|| format!("{} cannot be written", file.display()))?;
    Ok(())
}

fn totals_json(report: &Report<'_>) -> serde_json::Value {
    let Totals { files, bytes, places, omitted, binary, allowed, vanished, unreadable } =
        report.totals();
    json!({
        "findings": report.found().len(), "places": places, "files": files, "bytes": bytes,
        "omitted": omitted, "binary": binary, "allowed": allowed, "vanished": vanished,
        "unreadable": unreadable,
    })
}

/// What was found, for people.
fn lines(report: &Report<'_>) -> Vec<String> {
    let totals = report.totals();
    let found = match (report.found().len(), totals.places) {
        (0, _) => "no secrets".to_owned(),
        (1, 1) => "1 secret in 1 place".to_owned(),
        (1, places) => format!("1 secret in {places} places"),
        (secrets, places) => format!("{secrets} secrets in {places} places"),
    };
    let mut line = format!("{found}; {} files, {} bytes", totals.files, totals.bytes);
    for (count, what) in [
        (totals.binary, "not text"),
        (totals.allowed, "allowed by their paths"),
        (totals.vanished, "gone before they were read"),
        (totals.omitted, "findings left out of files that have too many"),
    ] {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    }
    let mut lines = vec![line];
    if totals.unreadable > 0 {
        lines.push(format!("{} files could not be read:", totals.unreadable));
        let first = report.unread().iter().take(10);
        lines.extend(first.map(|path| format!("  {}", shardwright_jobs::readable::readable(path))));
    }
    lines
}
