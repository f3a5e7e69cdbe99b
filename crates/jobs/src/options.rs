//! What is requested of a run.

use std::ffi::OsString;
use std::path::PathBuf;

use shardwright_coordination::RunName;

use crate::description::Mode;

/// Which run is meant, and how it is made if it is not there.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// The source: a folder, or the address of an object store.
    pub source: Option<OsString>,
    /// A file of rows instead of a source; `-` reads them from stdin.
    pub lines: Option<PathBuf>,
    /// Whether rows end with NUL.
    pub null: bool,
    /// Whether `.gitignore` files count.
    pub gitignore: bool,
    /// What is run.
    pub command: Vec<OsString>,
    /// How items get to it.
    pub mode: Mode,
    /// Whether items count when they are handed out.
    pub at_dispatch: bool,
    /// The name of the run; by default it is derived from source and command.
    pub name: Option<RunName>,
    /// Whether to begin a new run even if there is one of that name.
    pub fresh: bool,
    /// Where results go: a folder, or the address of an object store.
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
            source: None,
            lines: None,
            null: false,
            gitignore: false,
            command: Vec::new(),
            mode: Mode::Item,
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
    pub(crate) const fn is_scan(&self) -> bool {
        matches!(self.mode, Mode::Scan { .. })
    }
}
