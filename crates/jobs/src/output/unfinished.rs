//! The result file while it is built.
//!
//! Its name contains the run, and its builder holds a lock on it. A file without a lock was left by
//! a killed process, and may be large.

use std::fs::{self, DirEntry, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;

use shardwright_connectors::open_regular_with;
use shardwright_contracts::RunId;
use tempfile::NamedTempFile;

use super::{Output, new_file, parse_run, shown};

const UNFINISHED: &str = ".results-";

impl Output {
    /// Creates a file to build results in. Leftovers are deleted first, because the disk may have
    /// space for one file only.
    pub(super) fn new_unfinished(&self, run: RunId) -> io::Result<NamedTempFile> {
        let _removed = self.clear_unfinished();
        loop {
            let prefix = format!("{UNFINISHED}{}-", shown(run));
            let file = new_file(&self.folder, &prefix, self.mode)?;
            // Another process may have locked or deleted this file as a leftover before it was
            // locked here. Then try again. Where locks are not supported, no process deletes
            // leftovers.
            let is_ours = !matches!(file.as_file().try_lock(), Err(TryLockError::WouldBlock));
            if is_ours && file.as_file().metadata()?.nlink() > 0 {
                return Ok(file);
            }
        }
    }

    /// Deletes leftovers of result files, and returns their paths. Failures are ignored: the next
    /// call retries.
    pub(super) fn clear_unfinished(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut removed = Vec::new();
        for entry in entries.filter_map(Result::ok).filter(is_unfinished) {
            let path = entry.path();
            let options = File::options().read(true).write(true).clone();
            let Ok(file) = open_regular_with(&path, &options) else { continue };
            if file.try_lock().is_ok() && fs::remove_file(&path).is_ok() {
                removed.push(path.display().to_string());
            }
        }
        removed
    }
}

/// Whether the name of a file is that of an unfinished result file.
fn is_unfinished(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let named = name.to_str().and_then(|name| name.strip_prefix(UNFINISHED)?.split_once('-'));
    named.is_some_and(|(run, _)| parse_run(run).is_some())
        && entry.file_type().is_ok_and(|kind| kind.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[tokio::test]
    async fn leftovers_of_killed_processes_are_deleted() {
        let bench = Bench::new().await;
        let begun = bench.begin(&bench.options("cat")).await.unwrap();
        let (run, output) = (begun.run, begun.output);
        let unfinished = || {
            let entries = fs::read_dir(output.folder()).unwrap().map(Result::unwrap);
            entries.filter(is_unfinished).map(|entry| entry.path()).collect::<Vec<_>>()
        };
        // A killed process releases its locks and deletes nothing.
        let leave = async || drop(output.build(run, &[]).await.unwrap().file.keep().unwrap());
        let kept = [".results-mine", ".results-0123-x"].map(|name| output.folder().join(name));
        for file in &kept {
            fs::write(file, "").unwrap();
        }
        leave().await;
        assert_eq!(unfinished().len(), 1);
        let in_progress = output.build(run, &[]).await.unwrap();
        assert_eq!(unfinished(), [in_progress.file.path()]);
        leave().await;
        assert_eq!(unfinished().len(), 2);
        let deleted = output.clear(run).await.unwrap();
        assert_eq!(unfinished(), [in_progress.file.path()]);
        assert!(deleted.iter().any(|path| path.contains(".results-")), "{deleted:?}");
        assert!(kept.iter().all(|file| file.exists()));
    }
}
