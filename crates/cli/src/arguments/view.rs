//! What a command writes while it works.

use clap::{Args, ValueEnum};

/// Settings of the output to stderr.
#[derive(Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Output options")]
pub(crate) struct ViewArguments {
    /// Show progress as a bar, as plain lines, or as JSON lines on stderr [default: a bar on a
    /// terminal, else lines; none with --json].
    #[arg(long, value_name = "FORM", conflicts_with = "quiet")]
    pub(crate) progress: Option<ProgressForm>,
    /// Write no progress and no summary; write errors only.
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Report splits, and what the receipt contains.
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressForm {
    /// A bar on a terminal, else lines.
    Auto,
    /// A bar with a line per worker.
    Bar,
    /// A line every few seconds.
    Plain,
    /// A line of JSON every second.
    Json,
    /// No progress.
    None,
}
