//! Output that is too long to be part of a result.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::job::Assignment;

/// A folder for what a program wrote, where it wrote much.
#[derive(Clone, Debug)]
pub struct Spill {
    folder: PathBuf,
    /// The longest output that is kept in the result itself.
    pub inline_bytes: usize,
}

impl Spill {
    /// Puts output of more than `inline_bytes` into files of `folder`.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, inline_bytes: usize) -> Self {
        Self { folder: folder.into(), inline_bytes }
    }

    /// Begins the file of an item. Its name is the attempt's own, so that two owners never write
    /// to the same file.
    pub(super) fn begin(&self, assignment: &Assignment, sequence: u64) -> io::Result<SpillFile> {
        let Assignment { run, shard, fence, .. } = assignment;
        let folder = self.folder.join(format!("{:016x}", run.as_raw()));
        fs::create_dir_all(&folder)?;
        let name = format!("{:016x}-{:016x}-{sequence}", shard.as_raw(), fence.as_raw());
        let path = folder.join(name);
        let file = File::create(&path)?;
        Ok(SpillFile { path, file })
    }
}

/// The output of one item.
pub(super) struct SpillFile {
    path: PathBuf,
    file: File,
}

impl SpillFile {
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Makes it durable and gives its path.
    pub(super) fn finish(self) -> io::Result<PathBuf> {
        self.file.sync_all()?;
        if let Some(folder) = self.path.parent() {
            sync_folder(folder)?;
        }
        Ok(self.path)
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
