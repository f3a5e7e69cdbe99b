//! The arguments that name a source and choose its items.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use shardwright_coordination::RunName;
use shardwright_jobs::source::Filter;

use super::parse_name;

/// The source of a run.
#[derive(Args, Clone, Debug)]
pub(crate) struct SourceArguments {
    /// What to process: a folder (each file below it), a file (each of its lines), `-` (each line
    /// of stdin), an object store URL (each object), or several files and folders (each file that
    /// is given or below a given folder).
    #[arg(value_name = "SOURCE", required_unless_present = "lines", conflicts_with = "lines")]
    pub(crate) sources: Vec<OsString>,
    /// Process each line of FILE, even if its name looks like another source; `-` reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    pub(crate) lines: Option<PathBuf>,
    /// Separate lines by NUL instead of newline, also on the stdin of a --batch command.
    #[arg(long, short = '0')]
    pub(crate) null: bool,
    /// Process a file itself instead of its lines, even if it is the only SOURCE.
    #[arg(long)]
    pub(crate) files: bool,
    #[command(flatten)]
    pub(crate) choice: ChoiceArguments,
}

impl SourceArguments {
    /// A source of which files are never read as lines.
    pub(crate) const fn of_files(sources: Vec<OsString>, choice: ChoiceArguments) -> Self {
        Self { sources, lines: None, null: false, files: false, choice }
    }

    /// Whether a single source was named without a flag that states what it is.
    pub(crate) fn is_guessed(&self) -> bool {
        self.lines.is_none() && !self.files && self.sources.len() == 1
    }
}

/// Which files of folders and which objects are items.
#[derive(Args, Clone, Debug)]
pub(crate) struct ChoiceArguments {
    /// Process only files that match GLOB, or are in a folder that does. Repeat it for several.
    /// `*.jpg` matches at any depth, `/raw/*.jpg` in the folder `raw` of SOURCE, `raw/` all of it.
    #[arg(long, value_name = "GLOB")]
    pub(crate) include: Vec<String>,
    /// Skip files and folders that match GLOB, even if they are included. Repeat it for several.
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Follow symbolic links in folders. A link to a folder around it is reported and skipped.
    #[arg(long)]
    pub(crate) follow: bool,
    /// Skip files of folders that `.gitignore` files exclude.
    #[arg(long)]
    pub(crate) gitignore: bool,
}

impl ChoiceArguments {
    pub(crate) fn filter(&self) -> Filter {
        let Self { include, exclude, follow, .. } = self;
        Filter { include: include.clone(), exclude: exclude.clone(), follow: *follow }
    }
}

/// When a run begins, and whether.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct BeginArguments {
    /// Print the first commands and the numbers of items and shards, and run nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Wait until RUN is complete, and fail if it has failed or was cancelled. Repeat it for
    /// several.
    #[arg(long, value_name = "RUN", value_parser = parse_name)]
    pub(crate) after: Vec<RunName>,
}
