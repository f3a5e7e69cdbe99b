//! What a walk excludes: state folders, by device and inode, and what `.gitignore` files exclude.

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::Stat;

use crate::files::open_regular;

const RULES_FILE: &str = ".gitignore";

/// The identity of a file or folder on its machine, under any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(super) fn of(metadata: &std::fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// The identity of the entry at `path`. A link is not followed.
    pub(super) fn of_link(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&std::fs::symlink_metadata(path)?))
    }

    #[expect(clippy::useless_conversion, reason = "the widths differ from system to system")]
    pub(super) fn of_stat(stat: &Stat) -> Self {
        Self { device: u64::from(stat.st_dev), inode: u64::from(stat.st_ino) }
    }
}

/// Folders and files that no walk may open.
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

/// The rules of one folder, if it has any.
pub(super) type Rules = Option<Box<Gitignore>>;

/// Reads the rules of the folder at `path`.
pub(super) fn of_folder(path: &Path) -> io::Result<Rules> {
    read(path, &path.join(RULES_FILE))
}

/// Rules of the folders above a tree, up to and including its repository, nearest first. Empty
/// outside a repository.
pub(super) fn from_above(root: &Path) -> io::Result<Vec<Gitignore>> {
    let mut found = Vec::new();
    for folder in root.ancestors() {
        // The tree's own rules are read when it is walked.
        if folder != root {
            found.extend(of_folder(folder)?);
        }
        let repository = folder.join(".git");
        if repository.symlink_metadata().is_ok() {
            found.extend(read(folder, &repository.join("info/exclude"))?);
            return Ok(found.into_iter().map(|rules| *rules).collect());
        }
    }
    Ok(Vec::new())
}

fn read(folder: &Path, file: &Path) -> io::Result<Rules> {
    // Opening a pipe would wait for a writer, so only regular files are opened.
    match file.symlink_metadata() {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) => {
            let absent = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
            return if absent.contains(&error.kind()) { Ok(None) } else { Err(error) };
        }
    }
    let mut text = Vec::new();
    open_regular(file)?.read_to_end(&mut text)?;
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.split(|byte| *byte == b'\n') {
        // An invalid pattern is ignored, as in git.
        let _ = builder.add_line(None, &String::from_utf8_lossy(line));
    }
    let rules = builder.build().map_err(io::Error::other)?;
    Ok((!rules.is_empty()).then(|| Box::new(rules)))
}

/// Whether rules, the nearest first, exclude a path.
pub(super) fn ignores<'r>(
    rules: impl Iterator<Item = &'r Gitignore>,
    path: &Path,
    is_folder: bool,
) -> bool {
    for one in rules {
        match one.matched(path, is_folder) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => {}
        }
    }
    false
}
