//! The result file while it is built.
//!
//! Its name says of which run it is, and whoever builds it has it locked. What nobody has locked
//! was left behind by a process that was killed, and is as big as results are.

use std::fs::{self, DirEntry, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;

use shardwright_contracts::RunId;
use tempfile::NamedTempFile;

use super::{Output, new_file, run_shown, shown};

const UNFINISHED: &str = ".results-";

impl Output {
    /// A file in which results of a run are built. What was left behind goes first: there may be
    /// room for one of them only.
    pub(super) fn new_unfinished(&self, run: RunId) -> io::Result<NamedTempFile> {
        let _removed = self.clear_unfinished();
        loop {
            let file = new_file(&self.folder, &format!("{UNFINISHED}{}-", shown(run)))?;
            // Where there are no locks, nobody takes it for left behind either.
            let _locked = file.as_file().lock();
            // Somebody may have done so before it was locked.
            if file.as_file().metadata()?.nlink() > 0 {
                return Ok(file);
            }
        }
    }

    /// Takes away what was left behind when results were built, and says what that was. What cannot
    /// be taken away now is found the next time.
    pub(super) fn clear_unfinished(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut removed = Vec::new();
        for entry in entries.filter_map(Result::ok).filter(is_unfinished) {
            let path = entry.path();
            let Ok(file) = File::options().read(true).write(true).open(&path) else { continue };
            if file.try_lock().is_ok() && fs::remove_file(&path).is_ok() {
                removed.push(path.display().to_string());
            }
        }
        removed
    }
}

/// Whether a file is named as those are in which results are built.
fn is_unfinished(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let named = name.to_str().and_then(|name| name.strip_prefix(UNFINISHED)?.split_once('-'));
    named.is_some_and(|(run, _)| run_shown(run).is_some())
        && entry.file_type().is_ok_and(|kind| kind.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[tokio::test]
    async fn what_a_killed_process_had_built_goes_and_what_is_being_built_stays() {
        let bench = Bench::new().await;
        let begun = bench.begin(&bench.options("cat")).await.unwrap();
        let (run, output) = (begun.run, begun.output);
        let unfinished = || {
            let entries = fs::read_dir(output.folder()).unwrap().map(Result::unwrap);
            entries.filter(is_unfinished).map(|entry| entry.path()).collect::<Vec<_>>()
        };
        // A process that is killed lets go of everything, and takes nothing away.
        let leave = async || drop(output.build(run, &[]).await.unwrap().file.keep().unwrap());
        let kept = [".results-mine", ".results-0123-x"].map(|name| output.folder().join(name));
        for file in &kept {
            fs::write(file, "").unwrap();
        }
        leave().await;
        assert_eq!(unfinished().len(), 1);
        let at_work = output.build(run, &[]).await.unwrap();
        assert_eq!(unfinished(), [at_work.file.path()]);
        leave().await;
        assert_eq!(unfinished().len(), 2);
        let told = output.clear(run).await.unwrap();
        assert_eq!(unfinished(), [at_work.file.path()]);
        assert!(told.iter().any(|place| place.contains(".results-")), "{told:?}");
        assert!(kept.iter().all(|file| file.exists()));
    }
}
