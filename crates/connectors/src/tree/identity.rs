//! Folders by device and inode, so that no other name hides them.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::Stat;

/// What a file or folder is on its machine, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(super) fn of(metadata: &std::fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// Of what is at `path` itself, be it a link.
    pub(super) fn of_link(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&std::fs::symlink_metadata(path)?))
    }

    #[expect(clippy::useless_conversion, reason = "the widths differ from system to system")]
    pub(super) fn of_stat(stat: &Stat) -> Self {
        Self { device: u64::from(stat.st_dev), inode: u64::from(stat.st_ino) }
    }
}

/// What no walk may enter or hand out.
#[derive(Clone, Debug, Default)]
pub(super) struct Identities(Vec<Identity>);

impl Identities {
    pub(super) fn add(&mut self, identity: Identity) {
        self.0.push(identity);
    }

    pub(super) fn contains(&self, identity: Identity) -> bool {
        self.0.contains(&identity)
    }
}
