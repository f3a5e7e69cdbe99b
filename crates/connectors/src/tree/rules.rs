//! The compiled rules of a `.gitignore` file, within bounds of memory.

use std::fs::Metadata;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::files::open_regular;
use crate::filter::PATTERN_SIZE_MAX;

/// Most bytes of a file with rules.
const FILE_SIZE_MAX: u64 = 1 << 20;
/// Most memory that the rules of a file take, by the estimate of [`estimated_memory`].
pub(super) const MEMORY_MAX: usize = 32 << 20;

const KIB: usize = 1_024;
/// Characters that make a pattern more than a name. Such a pattern becomes a regular expression.
const WILDCARDS: &[u8] = b"*?[{\\";

/// The rules of a file, compiled.
#[derive(Debug)]
pub(super) struct RuleSet {
    matcher: Gitignore,
    /// Approximate memory, in bytes.
    pub(super) memory: usize,
}

/// A file with rules belongs to another user.
#[derive(Debug, thiserror::Error)]
#[error("its rules do not apply, because it belongs to user {owner}")]
pub(super) struct ForeignRules {
    pub(super) owner: u32,
}

impl RuleSet {
    /// Reads the rules in `file`, which apply below `folder`. They take at most `room` bytes. None
    /// if there are none. `may_rule` decides by the opened file whether they apply.
    pub(super) fn read(
        folder: &Path,
        file: &Path,
        room: usize,
        may_rule: impl FnOnce(&Metadata) -> bool,
    ) -> io::Result<Option<Box<Self>>> {
        // Opening a pipe would wait for a writer, so only regular files are opened.
        match file.symlink_metadata() {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Ok(None),
            Err(error) => return if is_absent(&error) { Ok(None) } else { Err(error) },
        }
        let file = open_regular(file)?;
        let metadata = file.metadata()?;
        if !may_rule(&metadata) {
            return Err(foreign(metadata.uid()));
        }
        let mut text = Vec::new();
        file.take(FILE_SIZE_MAX + 1).read_to_end(&mut text)?;
        if text.len() as u64 > FILE_SIZE_MAX {
            return Err(too_large("more than 1 MiB"));
        }
        Self::compile(folder, &text, room)
    }

    fn compile(folder: &Path, text: &[u8], room: usize) -> io::Result<Option<Box<Self>>> {
        let patterns = || text.split(|byte| *byte == b'\n').filter(|line| is_pattern(line));
        if patterns().any(|pattern| pattern.len() > PATTERN_SIZE_MAX) {
            return Err(too_large("a pattern of more than 1,024 bytes"));
        }
        // Before anything is compiled.
        let memory = patterns().map(estimated_memory).sum();
        if memory > room {
            return Err(too_large("too many patterns, alone or with the folders around it"));
        }
        let mut builder = GitignoreBuilder::new(folder);
        for pattern in patterns() {
            // An invalid pattern is ignored, as in git.
            let _ = builder.add_line(None, &String::from_utf8_lossy(pattern));
        }
        let matcher = builder.build().map_err(io::Error::other)?;
        Ok((!matcher.is_empty()).then(|| Box::new(Self { matcher, memory })))
    }
}

/// Whether rules, the nearest first, exclude a path.
pub(super) fn ignores<'r>(
    rules: impl Iterator<Item = &'r RuleSet>,
    path: &Path,
    is_folder: bool,
) -> bool {
    for one in rules {
        match one.matcher.matched(path, is_folder) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => {}
        }
    }
    false
}

pub(super) fn foreign(owner: u32) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, ForeignRules { owner })
}

fn too_large(what: &'static str) -> io::Error {
    let text = format!("its rules do not apply, because it has {what}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn is_pattern(line: &[u8]) -> bool {
    !line.starts_with(b"#") && !line.trim_ascii().is_empty()
}

/// An upper estimate of the memory of a compiled pattern, in bytes.
///
/// Measured: 0.7 KiB and 44 bytes for each byte of a name, 1.3 KiB for each byte of a pattern of
/// `*` and `?`.
fn estimated_memory(pattern: &[u8]) -> usize {
    let has_wildcard = pattern.iter().any(|byte| WILDCARDS.contains(byte));
    let of_byte = if has_wildcard { KIB + KIB / 2 } else { 64 };
    KIB + pattern.len() * of_byte
}
