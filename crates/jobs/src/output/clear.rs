//! Taking away what served to build results. The result file, the receipt, and long outputs that
//! the result file names are the user's, and stay. Nothing is taken away that is not named after a
//! run: the place may be a folder in which somebody keeps other things.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use anyhow::Context as _;
use shardwright_contracts::RunId;

use super::marker::own_marker;
use super::{LOGS, LONG_OUTPUTS, Output, SEGMENTS, shown};

impl Output {
    /// Takes away what is left of a run that is gone, and says what that was. Whoever begins it
    /// anew may have its place.
    pub async fn clear(&self, run: RunId) -> anyhow::Result<Vec<String>> {
        self.give_up(run).await?;
        let mut removed = self.clear_unfinished();
        // Programs write their logs to this machine, wherever results are.
        self.remove_here(&of_run(LOGS, run), &mut removed)?;
        self.remove_folder(&of_run(SEGMENTS, run), &mut removed).await?;
        if self.is_replaced(run).await? {
            self.remove_folder(&of_run(LONG_OUTPUTS, run), &mut removed).await?;
        }
        Ok(removed)
    }

    /// Takes away long outputs that no result file names any more.
    pub(super) async fn clear_long_outputs(&self, run: RunId) -> anyhow::Result<()> {
        self.remove_folder(&of_run(LONG_OUTPUTS, run), &mut Vec::new()).await
    }

    async fn remove_folder(&self, folder: &str, removed: &mut Vec<String>) -> anyhow::Result<()> {
        self.remove_here(folder, removed)?;
        if let Some(objects) = &self.objects
            && objects.delete_folder(folder).await? > 0
        {
            removed.push(objects.place(folder));
        }
        Ok(())
    }

    fn remove_here(&self, folder: &str, removed: &mut Vec<String>) -> anyhow::Result<()> {
        let here = self.folder.join(folder);
        if remove(&here)? {
            removed.push(here.display().to_string());
        }
        Ok(())
    }

    /// When a run's marker was left here; none if there is none.
    pub async fn reserved_at(&self, run: RunId) -> anyhow::Result<Option<SystemTime>> {
        let marker = own_marker(run);
        if let Some(objects) = &self.objects {
            return Ok(objects.modified_at(&marker).await?);
        }
        match std::fs::metadata(self.folder.join(&marker)).and_then(|found| found.modified()) {
            Ok(at) => Ok(Some(at)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| self.place(&marker)),
        }
    }
}

fn of_run(folder: &str, run: RunId) -> String {
    format!("{folder}/{}", shown(run))
}

/// Removes a folder, or a file; false if there is none.
pub fn remove(path: &Path) -> anyhow::Result<bool> {
    let removed =
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("{} cannot be removed", path.display())),
    }
}
