//! The handler of a scan, and the report of its findings.

use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::json;
use shardwright_connectors::{RESULT_MODE, SECRET_MODE, open_regular};
use shardwright_jobs::command::Command;
use shardwright_jobs::description::Description;
use shardwright_jobs::output::{Output, RESULTS, write_atomically};
use shardwright_jobs::receipt::Receipt;
use shardwright_jobs::source::AnyConnector;
use shardwright_process::scan::{Report, RuleSet, ScanHandler, ScanRecord, Scanner, Totals};

use crate::arguments::run::ScanArguments;
use crate::console::write_bytes;
use crate::exit::Exit;
use crate::view::{View, emit};

/// A scan with its rules and arguments.
pub(crate) struct Scan<'a> {
    pub(crate) rules: RuleSet,
    pub(crate) arguments: &'a ScanArguments,
}

impl Scan<'_> {
    /// The handler for the items of a source.
    pub(crate) fn command(&self, source: &AnyConnector) -> anyhow::Result<Command> {
        let handler = ScanHandler::new(Scanner::new(self.rules.clone(), self.arguments.secrecy())?);
        Ok(Command::Scan(match source {
            AnyConnector::Objects(objects) => handler.with_store(Arc::clone(objects.store())),
            AnyConnector::Tree(_) | AnyConnector::Lines(_) | AnyConnector::Library(_) => handler,
        }))
    }

    /// Collects the findings and writes the report.
    pub(crate) async fn finish(
        &self,
        view: &View,
        description: &Description,
        output: &Output,
        receipt: &Receipt,
    ) -> anyhow::Result<Exit> {
        // Results in an object store are downloaded into a temporary folder.
        let (folder, _fetched) = output.readable().await?;
        let report = self.collect(&folder.join(RESULTS))?;
        let mut written = Vec::new();
        report.write(self.arguments.format, &description.source.base(), &mut written)?;
        if let Some(file) = &self.arguments.report {
            let mode = if self.arguments.show_secrets { SECRET_MODE } else { RESULT_MODE };
            write_report(&std::path::absolute(file)?, &written, mode)?;
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
        view.finished_scan(receipt, &lines(&report));
        let is_incomplete = report.totals().unreadable > 0 || !receipt.is_whole();
        Ok(match (report.totals().locations, is_incomplete) {
            (1.., _) => Exit::Findings,
            (0, true) => Exit::Parked,
            (0, false) => Exit::Done,
        })
    }

    fn collect(&self, path: &Path) -> anyhow::Result<Report<'_>> {
        let open = || format!("cannot read {}", path.display());
        let mut reader = BufReader::new(open_regular(path).with_context(open)?);
        let (mut report, mut line) = (Report::new(&self.rules), Vec::new());
        while {
            line.clear();
            reader.read_until(b'\n', &mut line)?
        } > 0
        {
            let record: ScanRecord<'_> = serde_json::from_slice(&line)
                .with_context(|| format!("{} is not the result file of a scan", path.display()))?;
            let key = record.key.to_bytes().unwrap_or_default();
            report.add(&key, record.bytes, record.report);
        }
        Ok(report)
    }
}

/// Writes the report. A regular file is replaced. Anything else, such as a pipe or a link, is
/// written to, and stays.
fn write_report(file: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    if is_new_or_regular(file) {
        return write_atomically(file, bytes, mode);
    }
    let mut options = File::options();
    // The file is truncated only after its permissions were limited.
    let opened = options.write(true).create(true).truncate(false).mode(mode).open(file);
    let written = opened.and_then(|mut file| {
        limit_mode(&file, mode)?;
        file.write_all(bytes)
    });
    written.with_context(|| format!("{} cannot be written", file.display()))
}

/// Empties a regular file, with at most these permissions.
fn limit_mode(file: &File, mode: u32) -> io::Result<()> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(());
    }
    let given = found.permissions().mode();
    let limited = given & !0o777 | given & mode;
    if limited != given {
        file.set_permissions(Permissions::from_mode(limited))?;
    }
    file.set_len(0)
}

fn is_new_or_regular(file: &Path) -> bool {
    file.symlink_metadata().map_or(true, |found| found.is_file())
}

/// Checks that the report file can be written, before the scan starts.
pub(crate) fn ensure_writable(file: &Path) -> anyhow::Result<()> {
    let file = std::path::absolute(file)?;
    anyhow::ensure!(!file.is_dir(), "--report {} is a folder; name a file", file.display());
    let is_socket = file.metadata().is_ok_and(|found| found.file_type().is_socket());
    anyhow::ensure!(!is_socket, "--report {} is a socket; name a file", file.display());
    if !is_new_or_regular(&file) {
        // Opening a pipe would end its reader.
        return Ok(());
    }
    let folder = file.parent().unwrap_or(&file);
    let probe = tempfile::tempfile_in(folder);
    probe.with_context(|| format!("cannot write --report {}", file.display()))?;
    Ok(())
}

fn totals_json(report: &Report<'_>) -> serde_json::Value {
    let Totals { files, bytes, locations, omitted, binary, allowed, vanished, unreadable } =
        report.totals();
    json!({
        "findings": report.found().len(), "places": locations, "files": files, "bytes": bytes,
        "omitted": omitted, "binary": binary, "allowed": allowed, "vanished": vanished,
        "unreadable": unreadable,
    })
}

/// The summary of the findings as text.
fn lines(report: &Report<'_>) -> Vec<String> {
    let totals = report.totals();
    let found = match (report.found().len(), totals.locations) {
        (0, _) => "no secrets".to_owned(),
        (1, 1) => "1 secret in 1 place".to_owned(),
        (1, places) => format!("1 secret in {places} places"),
        (secrets, places) => format!("{secrets} secrets in {places} places"),
    };
    let mut line = format!("{found}; {} files, {} bytes", totals.files, totals.bytes);
    for (count, what) in [
        (totals.binary, "binary"),
        (totals.allowed, "allowed by path"),
        (totals.vanished, "deleted before they were read"),
        (totals.omitted, "findings omitted from files with too many"),
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
