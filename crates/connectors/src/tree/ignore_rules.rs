//! The `.gitignore` files of a tree.

use std::io;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

const RULES_FILE: &str = ".gitignore";

/// The rules of one folder, if it has any.
pub(super) type Rules = Option<Box<Gitignore>>;

/// Reads the rules of the folder at `path`.
pub(super) fn of_folder(path: &Path) -> io::Result<Rules> {
    read(path, &path.join(RULES_FILE))
}

/// The rules from above a tree that hold in it, the nearest first: those of the folders around
/// it, up to the one that is a repository, and of that repository. None outside of one.
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
    let text = std::fs::read(file)?;
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.split(|byte| *byte == b'\n') {
        // A line that is no pattern is passed over, as git does.
        let _ = builder.add_line(None, &String::from_utf8_lossy(line));
    }
    let rules = builder.build().map_err(io::Error::other)?;
    Ok((!rules.is_empty()).then(|| Box::new(rules)))
}

/// Whether rules, the nearest first, say that a path is not wanted.
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
