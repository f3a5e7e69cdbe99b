//! Deleting the files from which results were built.
//!
//! The result file, the receipt, and long outputs that the result file names belong to the user,
//! and stay. The location comes from the store, and the user may keep other files there. So only
//! files with names of this program are deleted, in folders that are named after a run.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use anyhow::Context as _;
use shardwright_connectors::{PlainName, is_segment_name, remove_files};
use shardwright_contracts::RunId;

use super::marker::{MARKER, own_marker};
use super::{LOGS, LONG_OUTPUTS, Output, SEGMENTS, TEMPORARY, shown};
use crate::journal;

/// The end of the name of a long stderr. That of a long stdout has none.
const STDERR: &str = ".stderr";

/// A folder of a run's files at the location of its results.
#[derive(Clone, Copy, Debug)]
enum RunFolder {
    Segments,
    LongOutputs,
    Logs,
}

impl RunFolder {
    const fn name(self) -> &'static str {
        match self {
            Self::Segments => SEGMENTS,
            Self::LongOutputs => LONG_OUTPUTS,
            Self::Logs => LOGS,
        }
    }

    /// Recognizes the names of files that this program writes into the folder.
    fn is_ours(self) -> fn(&str) -> bool {
        match self {
            Self::Segments => |name| {
                is_segment_name(name)
                    || name == MARKER
                    || journal::is_name(name)
                    || name.starts_with(TEMPORARY)
            },
            Self::LongOutputs => |name| {
                let parts = name.strip_suffix(STDERR).unwrap_or(name).rsplit_once('-');
                parts.is_some_and(|(segment, number)| {
                    is_segment_name(segment) && number.bytes().all(|byte| byte.is_ascii_digit())
                })
            },
            Self::Logs => |name| {
                let worker = name.strip_suffix(".log").unwrap_or_default();
                worker.len() == 16 && worker.bytes().all(|byte| byte.is_ascii_hexdigit())
            },
        }
    }
}

impl Output {
    /// Deletes the files of a deleted run, and returns their paths. A new run of the name may own
    /// the location then.
    pub async fn clear(&self, run: RunId) -> anyhow::Result<Vec<String>> {
        self.disown(run).await?;
        let mut removed = self.clear_unfinished();
        // Logs of programs are on this machine, also with results in an object store.
        self.remove_local(RunFolder::Logs, run, &mut removed)?;
        self.remove_folder(RunFolder::Segments, run, &mut removed).await?;
        if self.is_replaced(run).await? {
            self.remove_folder(RunFolder::LongOutputs, run, &mut removed).await?;
        }
        Ok(removed)
    }

    /// Deletes the marker of a run that no process can find.
    pub(crate) async fn unreserve(&self, run: RunId) -> anyhow::Result<()> {
        self.remove_folder(RunFolder::Segments, run, &mut Vec::new()).await
    }

    /// Deletes long outputs that no result file names any more.
    pub(super) async fn clear_long_outputs(&self, run: RunId) -> anyhow::Result<()> {
        self.remove_folder(RunFolder::LongOutputs, run, &mut Vec::new()).await
    }

    async fn remove_folder(
        &self,
        folder: RunFolder,
        run: RunId,
        removed: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        self.remove_local(folder, run, removed)?;
        let path = of_run(folder, run);
        if let Some(objects) = &self.objects
            && objects.delete_folder(&path, folder.is_ours()).await? > 0
        {
            removed.push(objects.url_of(&path));
        }
        Ok(())
    }

    fn remove_local(
        &self,
        folder: RunFolder,
        run: RunId,
        removed: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        let path = self.folder.join(of_run(folder, run));
        let names = [folder.name().to_owned(), shown(run)];
        let below: Vec<PlainName> = names.iter().filter_map(PlainName::new).collect();
        let is_changed = remove_files(&self.folder, &below, folder.is_ours());
        if is_changed.with_context(|| format!("{} cannot be deleted", path.display()))? {
            removed.push(path.display().to_string());
        }
        Ok(())
    }

    /// The time when a run's marker was written. None if there is no marker.
    pub async fn reserved_at(&self, run: RunId) -> anyhow::Result<Option<SystemTime>> {
        let marker = own_marker(run);
        if let Some(objects) = &self.objects {
            return Ok(objects.modified_at(&marker).await?);
        }
        match std::fs::metadata(self.folder.join(&marker)).and_then(|found| found.modified()) {
            Ok(at) => Ok(Some(at)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| self.location(&marker)),
        }
    }
}

fn of_run(folder: RunFolder, run: RunId) -> String {
    format!("{}/{}", folder.name(), shown(run))
}

/// Deletes a file. Returns whether it existed.
pub fn remove(path: &Path) -> anyhow::Result<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("{} cannot be deleted", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_runs_files_are_recognized() {
        let segment = "00000000000000ab-0000000000000001";
        for (folder, ours, others) in [
            (
                RunFolder::Segments,
                vec![segment.to_owned(), format!("{segment}/00000007"), "run.json".to_owned()],
                vec!["mine".to_owned(), format!("{segment}/x"), format!("{segment}0")],
            ),
            (
                RunFolder::LongOutputs,
                vec![format!("{segment}-12"), format!("{segment}-12.stderr")],
                vec![segment.to_owned(), format!("{segment}.stderr"), format!("{segment}-1.err")],
            ),
            (RunFolder::Logs, vec!["00000000000000ab.log".to_owned()], vec!["my.log".to_owned()]),
        ] {
            assert!(ours.iter().all(|name| folder.is_ours()(name)), "{folder:?}");
            assert!(!others.iter().any(|name| folder.is_ours()(name)), "{folder:?}");
        }
        let journal = "books-00000000000000ff.jsonl";
        assert!(RunFolder::Segments.is_ours()(journal) && !RunFolder::Logs.is_ours()(journal));
    }
}
