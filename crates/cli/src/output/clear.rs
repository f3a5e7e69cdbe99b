//! Taking away what served to build results. The result file, the receipt, and long outputs that
//! the result file names are the user's, and stay.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use anyhow::Context as _;
use shardwright_contracts::RunId;

use super::marker::own_marker;
use super::{Output, SEGMENTS, shown};

const LONG_OUTPUTS: &str = "stdout";
const LOGS: &str = "logs";

impl Output {
    /// Takes away what is left of a run that is gone, and says what that was.
    pub(crate) async fn clear(&self, run: RunId) -> anyhow::Result<Vec<String>> {
        let of_run = |folder: &str| format!("{folder}/{}", shown(run));
        // The result file is of the last run that claimed the place.
        let is_current = self.ensure_current(run).await.is_ok();
        let mut folders = vec![of_run(SEGMENTS)];
        if is_current {
            folders.push(LOGS.to_owned());
        } else {
            folders.push(of_run(LONG_OUTPUTS));
        }
        let mut removed = Vec::new();
        for folder in folders {
            let here = self.folder.join(&folder);
            if remove(&here)? {
                removed.push(here.display().to_string());
            }
            if let Some(objects) = &self.objects
                && objects.delete_folder(&folder).await? > 0
            {
                removed.push(objects.place(&folder));
            }
        }
        Ok(removed)
    }

    /// When a run's marker was left here, if that can be seen.
    pub(crate) fn reserved_at(&self, run: RunId) -> Option<SystemTime> {
        std::fs::metadata(self.folder.join(own_marker(run))).ok()?.modified().ok()
    }
}

/// Removes a folder, or a file; false if there is none.
pub(crate) fn remove(path: &Path) -> anyhow::Result<bool> {
    let removed =
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("{} cannot be removed", path.display())),
    }
}
