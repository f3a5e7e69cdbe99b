//! The arguments of the commands that work on a run's items.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use shardwright_coordination::RunName;
use shardwright_jobs::JobOptions;
use shardwright_jobs::description::Mode;
use shardwright_process::scan::{Format, Secrecy};
use shardwright_worker::RetryPolicy;

use super::duration::parse_duration;
use super::items::{COMMAND_HELP, ItemArguments, LimitArguments};
use super::parse_name;
use super::source::{BeginArguments, ChoiceArguments, SourceArguments};
use super::view::ViewArguments;

#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) begin: BeginArguments,
    /// Start one process per N items; it reads the items from stdin, or
    /// gets them as arguments: an argument with a placeholder is repeated for each item.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: Option<u32>,
    /// Start one long-lived process per worker; it reads items as JSON lines from file descriptor
    /// 3 and answers on descriptor 4.
    #[arg(long, conflicts_with = "batch")]
    pub(crate) persistent: bool,
    #[command(flatten)]
    pub(crate) items: ItemArguments,
    #[command(flatten)]
    pub(crate) limits: LimitArguments,
    #[command(flatten)]
    pub(crate) work: WorkArguments,
    /// Commit items when they start instead of when they finish; faster, but a kill loses the
    /// items in progress.
    #[arg(long)]
    pub(crate) at_dispatch: bool,
    #[command(flatten)]
    pub(crate) make: MakeArguments,
    /// Set if the run is a scan.
    #[arg(skip)]
    pub(crate) scan: Option<Secrecy>,
    /// Command to run; `{}` stands for the item. Without a placeholder the item becomes the last
    /// argument.
    #[arg(last = true, value_name = "COMMAND", long_help = COMMAND_HELP)]
    #[arg(required_unless_present = "shell")]
    pub(crate) command: Vec<OsString>,
}

/// Name and settings of a run that may have to be created.
#[derive(Args, Clone, Debug)]
pub(crate) struct MakeArguments {
    /// Name of the run [default: derived from source and command].
    #[arg(long = "run", value_name = "NAME", value_parser = parse_name)]
    pub(crate) name: Option<RunName>,
    /// Start a new run; it replaces an existing run of the same name.
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Write results to this folder or object store URL; every worker must reach it [default:
    /// runs/NAME in the state folder; required on etcd unless --out-local is given].
    #[arg(long, value_name = "FOLDER|URL")]
    pub(crate) out: Option<OsString>,
    /// On etcd: leave results on the machine that produced them.
    #[arg(long, conflicts_with = "out")]
    pub(crate) out_local: bool,
    /// Start a new run with N shards [default: 4 per worker].
    #[arg(long, value_name = "N", value_parser = between(1, 256))]
    pub(crate) shards: Option<u16>,
    /// Lease TTL: let another worker claim a shard after its holder is silent for SECONDS.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = between(1, 3_600))]
    pub(crate) lease: u16,
}

#[derive(Args, Debug)]
pub(crate) struct ScanArguments {
    /// Files and folders, or an object store URL.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<OsString>,
    #[command(flatten)]
    choice: ChoiceArguments,
    /// Rule file in the Gitleaks format [default: built-in rules].
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// Format of the findings: `text`, `jsonl` or `sarif`.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: Format,
    /// Write the findings to FILE instead of stdout.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Show secrets in full, in the findings and in the stored results.
    #[arg(long)]
    pub(crate) show_secrets: bool,
    #[command(flatten)]
    work: WorkArguments,
    #[command(flatten)]
    make: MakeArguments,
}

impl ScanArguments {
    pub(crate) const fn secrecy(&self) -> Secrecy {
        if self.show_secrets { Secrecy::Shown } else { Secrecy::Redacted }
    }

    /// The scan as a run. The digest of the rules distinguishes scans with different rules.
    pub(crate) fn as_run(&self, rules: [u8; 32]) -> RunArguments {
        RunArguments {
            source: SourceArguments::of_files(self.sources.clone(), self.choice.clone()),
            begin: BeginArguments::default(),
            batch: None,
            persistent: false,
            items: ItemArguments::default(),
            limits: LimitArguments::default(),
            work: self.work,
            at_dispatch: false,
            make: self.make.clone(),
            scan: Some(self.secrecy()),
            command: vec!["shardwright".into(), "scan".into(), hex::encode(rules).into()],
        }
    }
}

/// Settings of this process's workers.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WorkArguments {
    /// Work on N shards at a time [default: number of cores].
    #[arg(long, short = 'j', value_name = "N", value_parser = between(1, 1_024))]
    workers: Option<u16>,
    /// Process N items (or batches) of a shard at a time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = between(1, 4_096))]
    in_flight: u16,
    /// Retry a failed item up to N times.
    #[arg(long, value_name = "N", default_value_t = 2)]
    retries: u32,
    /// Wait DURATION before the first retry; doubles up to 30s, or to a longer DURATION. Meanwhile
    /// the worker processes other items.
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = parse_duration)]
    retry_delay: Duration,
    /// Park an item after N workers in a row crashed on it.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = between(2, 10_000))]
    max_crashes: u16,
    /// Pause the run when more than N items, or more than P percent of them, have failed
    /// [default: no limit].
    #[arg(long, value_name = "N|P%")]
    pub(crate) max_failures: Option<FailureLimit>,
    #[command(flatten)]
    pub(crate) view: ViewArguments,
}

impl WorkArguments {
    pub(crate) fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.map_or_else(cores, usize::from)
    }

    pub(crate) fn retry(&self) -> RetryPolicy {
        let (longest_wait, first_wait) = (RetryPolicy::default().longest_wait, self.retry_delay);
        RetryPolicy {
            retries: self.retries,
            first_wait,
            longest_wait: longest_wait.max(first_wait),
        }
    }

    pub(crate) fn max_crashes(&self) -> u32 {
        self.max_crashes.into()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.into()
    }
}

impl RunArguments {
    /// The options of the job that finds or creates the run.
    pub(crate) fn options(&self) -> JobOptions {
        let MakeArguments { name, fresh, out, out_local, shards, lease } = &self.make;
        let SourceArguments { sources, lines, null, files, choice } = &self.source;
        JobOptions {
            sources: sources.clone(),
            lines: lines.clone(),
            null: *null,
            files: *files,
            gitignore: choice.gitignore,
            filter: choice.filter(),
            command: self.items.command(&self.command),
            shell: self.items.shell.is_some(),
            placeholders: self.items.placeholders(),
            mode: self.mode(),
            limits: self.limits.limits(),
            at_dispatch: self.at_dispatch,
            name: *name,
            fresh: *fresh,
            out: out.clone(),
            out_local: *out_local,
            shards: *shards,
            lease_seconds: *lease,
            workers: self.work.workers(),
        }
    }

    /// How the command receives its items.
    pub(crate) const fn mode(&self) -> Mode {
        if let Some(secrecy) = self.scan {
            return Mode::Scan { shows_secrets: matches!(secrecy, Secrecy::Shown) };
        }
        match self.batch {
            Some(size) => Mode::Batch { size, null: self.source.null },
            None if self.persistent => Mode::Persistent,
            None => Mode::Item,
        }
    }
}

fn between(least: u16, most: u16) -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(i64::from(least)..=i64::from(most))
}

/// The highest number or share of items that may fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FailureLimit {
    Items(u64),
    Percent(f64),
}

impl std::str::FromStr for FailureLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a number like `20` or a percentage like `5%`");
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.parse().map_err(|_| wrong())?;
            let is_share = (0.0..=100.0).contains(&percent);
            return if is_share { Ok(Self::Percent(percent)) } else { Err(wrong()) };
        }
        text.parse().map(Self::Items).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_limit_is_a_number_or_a_percentage() {
        assert_eq!("12".parse(), Ok(FailureLimit::Items(12)));
        assert_eq!("2.5%".parse(), Ok(FailureLimit::Percent(2.5)));
        for wrong in ["", "%", "-1", "101%", "ten", "NaN%"] {
            assert!(wrong.parse::<FailureLimit>().is_err(), "{wrong}");
        }
    }
}
