//! The options of a run, and its default name.

use std::ffi::OsString;
use std::path::PathBuf;

use shardwright_coordination::RunName;
use shardwright_process::{Limits, Placeholders};

use crate::description::Mode;
use crate::source::Filter;

/// Longest part of a derived name from the source.
const STEM: usize = 24;

/// Names a run, and describes it if it has to be created.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// The source: a folder, a file of rows, `-` for rows from stdin, or the URL of an object
    /// store. Several files and folders are one source.
    pub sources: Vec<OsString>,
    /// A file of rows instead of a source; `-` reads them from stdin.
    pub lines: Option<PathBuf>,
    /// Whether rows are separated by NUL.
    pub null: bool,
    /// Whether a file is an item, even if it is the only source.
    pub files: bool,
    /// Whether `.gitignore` files count.
    pub gitignore: bool,
    /// Which files or objects are items.
    pub filter: Filter,
    /// The command.
    pub command: Vec<OsString>,
    /// Whether the command is one line for a shell.
    pub shell: bool,
    /// What stands for items in it.
    pub placeholders: Placeholders,
    /// How items are passed to it.
    pub mode: Mode,
    /// Limits of each program. They replace those of an existing run in this process.
    pub limits: Limits,
    /// Whether cursors move at dispatch.
    pub at_dispatch: bool,
    /// The name of the run; by default it is derived from source and command.
    pub name: Option<RunName>,
    /// Whether to start the run over if it exists.
    pub fresh: bool,
    /// Location of the results: a folder, or the URL of an object store.
    pub out: Option<OsString>,
    /// Whether every machine keeps the results of its own work.
    pub out_local: bool,
    /// Shards of a new run; by default four per worker.
    pub shards: Option<u16>,
    /// Seconds after which the lease of a silent worker expires.
    pub lease_seconds: u16,
    /// Workers of this process.
    pub workers: usize,
}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            lines: None,
            null: false,
            files: false,
            gitignore: false,
            filter: Filter::default(),
            command: Vec::new(),
            shell: false,
            placeholders: Placeholders::default(),
            mode: Mode::Item,
            limits: Limits::default(),
            at_dispatch: false,
            name: None,
            fresh: false,
            out: None,
            out_local: false,
            shards: None,
            lease_seconds: 10,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl JobOptions {
    /// The sources as paths.
    pub(crate) fn given(&self) -> Vec<PathBuf> {
        self.sources.iter().map(PathBuf::from).collect()
    }

    pub(crate) const fn is_scan(&self) -> bool {
        matches!(self.mode, Mode::Scan { .. })
    }
}

/// The name that is derived from a source and a command: a readable part and a digest.
pub(crate) fn readable_name(source: &str, distinguishing: &[&[u8]]) -> RunName {
    let mut hasher = blake3::Hasher::new_derive_key("shardwright/cli/v1/run-name");
    for part in distinguishing {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let digest = hex::encode(hasher.finalize().as_bytes().get(..4).unwrap_or_default());
    let last = source.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
    let plain =
        last.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    let stem: String = plain.take(STEM).collect();
    let stem = stem.trim_matches('-').to_ascii_lowercase();
    let name = if stem.is_empty() { format!("run-{digest}") } else { format!("{stem}-{digest}") };
    // Letters, digits and hyphens, at most 33 of them.
    RunName::new(&name).unwrap_or_else(|_| fallback())
}

#[expect(clippy::unwrap_used, reason = "`run` is a valid name")]
fn fallback() -> RunName {
    RunName::new("run").unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_readable_and_the_same_for_the_same_work() {
        let name = readable_name("/data/My Photos/", &[b"a", b"b"]);
        assert_eq!(name, readable_name("/data/My Photos/", &[b"a", b"b"]));
        assert!(name.as_str().starts_with("my-photos-"), "{name}");
        assert_ne!(name, readable_name("/data/My Photos/", &[b"ab", b""]));
    }

    #[test]
    fn every_source_gives_a_name() {
        for source in ["", "/", "...", "\u{e9}\u{e9}", &"x".repeat(500), "s3://bucket/a b/c"] {
            assert_ne!(readable_name(source, &[]).as_str(), "run", "{source}");
        }
    }
}
