//! The arguments of the command line.

pub(crate) mod cluster;
pub(crate) mod demo;
pub(crate) mod etcd;
pub(crate) mod listen;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use shardwright_coordination::RunName;
use shardwright_jobs::JobOptions;
use shardwright_jobs::description::Mode;
use shardwright_process::scan::{Format, Secrecy};

use self::cluster::{ClusterArguments, GateArguments, NodeArguments, RouteArguments};
use self::demo::DemoCommand;
use self::etcd::EtcdFlags;
use crate::exit;
use crate::store::{StoreAddress, TrustedFolders};

/// Run a command for every item of a source, resumable after any kill; or run a cluster that keeps
/// one owner per shard.
#[derive(Debug, Parser)]
#[command(name = "shardwright", version, disable_help_subcommand = true)]
#[command(after_help = with_codes("shardwright run photos/ -- sha256sum {}", exit::CODES))]
pub(crate) struct Arguments {
    /// State store URL: `file:FOLDER`, `memory:`, `etcd://HOST:PORT[,HOST:PORT...]`, or
    /// `etcds://...` for etcd over TLS [default: file:.shardwright].
    #[arg(long, global = true, value_name = "URL", value_parser = parse_store)]
    pub(crate) store: Option<GivenStore>,
    /// Use the state in FOLDER although another user owns it; `*` means any folder.
    #[arg(long = "trust-folder", global = true, value_name = "FOLDER", value_delimiter = ':')]
    #[arg(env = TrustedFolders::VARIABLE, hide_env_values = true)]
    pub(crate) trusted: Vec<PathBuf>,
    /// Write JSON instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) etcd: EtcdFlags,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command for every item of a source; the same command resumes the run.
    #[command(after_help = with_codes(RUN_EXAMPLE, exit::RUN_CODES))]
    Run(Box<RunArguments>),
    /// Scan the files of a folder, or the objects of a bucket, for secrets.
    #[command(after_help = with_codes(SCAN_EXAMPLE, exit::SCAN_CODES))]
    Scan(Box<ScanArguments>),
    /// List the runs in the store.
    #[command(after_help = example("shardwright runs"))]
    Runs,
    /// Show a run's state, source, command and shards.
    #[command(after_help = example("shardwright show digests"))]
    Show(RunChoice),
    /// List the shards of a run.
    #[command(after_help = example("shardwright shards digests"))]
    Shards(RunChoice),
    /// List the failed items of a run that are parked.
    #[command(after_help = example("shardwright parked digests"))]
    Parked(RunChoice),
    /// Let workers retry the parked items of a run.
    #[command(after_help = example("shardwright unpark digests"))]
    Unpark(UnparkArguments),
    /// Retry the parked items of a run in this process.
    #[command(after_help = with_codes("shardwright retry --parked digests", exit::RUN_CODES))]
    Retry(RetryArguments),
    /// Pause a run: workers release their shards and claim no others.
    #[command(after_help = example("shardwright pause digests"))]
    Pause(RunChoice),
    /// Resume a paused run.
    #[command(after_help = example("shardwright resume digests"))]
    Resume(RunChoice),
    /// End a run permanently.
    #[command(after_help = example("shardwright cancel digests"))]
    Cancel(RunChoice),
    /// Check the receipt of a finished run against the store, the results and the source.
    #[command(after_help = with_codes("shardwright verify digests", exit::VERIFY_CODES))]
    Verify(VerifyArguments),
    /// Delete runs that ended long ago; keep their results and receipts.
    #[command(after_help = example("shardwright gc --keep-days 7"))]
    Gc(GcArguments),
    /// Invalidate all leases after restoring a backup. Stop all processes that use the store, run
    /// this once, then start them again.
    #[command(after_help = example("shardwright restored --store etcd://10.0.0.1:2379"))]
    Restored,
    /// Start a cluster node that serves counter objects.
    #[command(after_help = with_codes(NODE_EXAMPLE, exit::SERVER_CODES))]
    Node(Box<NodeArguments>),
    /// Start a gate: accept client calls over gRPC and HTTP and route them to nodes.
    #[command(after_help = with_codes(GATE_EXAMPLE, exit::SERVER_CODES))]
    Gate(Box<GateArguments>),
    /// Show the state of a cluster, and move, pin or drain its shards.
    #[command(after_help = example("shardwright cluster status"))]
    Cluster(Box<ClusterArguments>),
    /// Show which node serves an object, and why.
    #[command(after_help = example("shardwright route visits"))]
    Route(Box<RouteArguments>),
    /// Run a demonstration on this machine.
    #[command(after_help = example("shardwright demo cluster"), subcommand)]
    Demo(DemoCommand),
    /// Print a completion script for a shell.
    #[command(after_help = example("shardwright completions bash > shardwright.bash"))]
    Completions {
        /// Shell.
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
}

const RUN_EXAMPLE: &str = "shardwright run photos/ --run digests -- sha256sum {}";
const SCAN_EXAMPLE: &str = "shardwright scan src/ --format sarif --report findings.sarif";
const NODE_EXAMPLE: &str = "shardwright node --listen 10.0.0.1:7000 --allow-insecure";
const GATE_EXAMPLE: &str =
    "shardwright gate --listen 10.0.0.1:8000 --http 10.0.0.1:8080 --allow-insecure";

/// The end of a command's help: an example.
pub(crate) fn example(command: &str) -> String {
    format!("Example:\n  {command}")
}

/// The end of a command's help: an example and the exit codes.
pub(crate) fn with_codes(command: &str, codes: &str) -> String {
    format!("{}\n\n{codes}", example(command))
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RunChoice {
    /// Name of the run, as `shardwright runs` lists it.
    #[arg(value_name = "RUN", value_parser = parse_name)]
    pub(crate) run: RunName,
}

#[derive(Args, Debug)]
pub(crate) struct UnparkArguments {
    #[command(flatten)]
    pub(crate) run: RunChoice,
    /// Shard ids, as `shardwright parked` lists them [default: all parked shards].
    #[arg(value_name = "SHARD", value_parser = parse_shard)]
    pub(crate) shards: Vec<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct RetryArguments {
    /// Retry parked items (required).
    #[arg(long, required = true)]
    parked: bool,
    /// Name of the run [default: the only run with parked items].
    #[arg(value_name = "RUN", value_parser = parse_name)]
    pub(crate) run: Option<RunName>,
    /// Run the stored command without confirmation, even if other users can write the store.
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) work: WorkArguments,
    /// Command of the run; if it is given, it must be the stored one, and needs no confirmation.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArguments {
    #[command(flatten)]
    pub(crate) run: RunChoice,
    /// Do not read the source; compare the receipt with the store and the results only.
    #[arg(long)]
    pub(crate) without_source: bool,
}

#[derive(Args, Debug)]
pub(crate) struct GcArguments {
    /// Keep runs that ended less than DAYS days ago.
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    pub(crate) keep_days: u64,
}

#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    /// Folder (one item per file) or object store URL (one item per object).
    #[arg(value_name = "SOURCE", required_unless_present = "lines", conflicts_with = "lines")]
    pub(crate) source: Option<OsString>,
    /// Use each row of FILE as an item, instead of SOURCE; `-` reads stdin.
    #[arg(long, value_name = "FILE")]
    pub(crate) lines: Option<PathBuf>,
    /// Separate records by NUL instead of newline, in FILE and on a batch command's stdin.
    #[arg(long)]
    pub(crate) null: bool,
    /// Skip files that `.gitignore` files exclude.
    #[arg(long)]
    pub(crate) gitignore: bool,
    /// Start one process per N items; it reads the items from stdin, or
    /// gets them as arguments in place of `{}`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: Option<u32>,
    /// Start one long-lived process per worker; it reads items as JSON lines from file descriptor
    /// 3 and answers on descriptor 4.
    #[arg(long, conflicts_with = "batch")]
    pub(crate) persistent: bool,
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
    /// Command to run; `{}` stands for the item. Without `{}` the item becomes the last argument.
    #[arg(last = true, required = true, value_name = "COMMAND")]
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
    /// Folder or object store URL.
    #[arg(value_name = "SOURCE")]
    source: OsString,
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
    /// Skip files that `.gitignore` files exclude.
    #[arg(long)]
    gitignore: bool,
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
            source: Some(self.source.clone()),
            lines: None,
            null: false,
            gitignore: self.gitignore,
            batch: None,
            persistent: false,
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
    pub(crate) retries: u32,
    /// Park an item after N workers in a row crashed on it.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = between(2, 10_000))]
    max_crashes: u16,
    /// Pause the run when more than N items, or more than P percent of them, have failed
    /// [default: no limit].
    #[arg(long, value_name = "N|P%")]
    pub(crate) max_failures: Option<FailureLimit>,
}

impl WorkArguments {
    pub(crate) fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.map_or_else(cores, usize::from)
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
        JobOptions {
            source: self.source.clone(),
            lines: self.lines.clone(),
            null: self.null,
            gitignore: self.gitignore,
            command: self.command.clone(),
            mode: self.mode(),
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
            Some(size) => Mode::Batch { size, null: self.null },
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

/// The store URL of the command line, parsed. The parser of the command line repeats a value that
/// it rejects, and this one may contain a password. So it accepts every value.
#[derive(Clone, Debug)]
pub(crate) struct GivenStore(Result<StoreAddress, String>);

impl GivenStore {
    pub(crate) fn address(self) -> anyhow::Result<StoreAddress> {
        self.0.map_err(anyhow::Error::msg)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the parser requires a result")]
fn parse_store(text: &str) -> Result<GivenStore, String> {
    let is_etcd = text.starts_with("etcd://") || text.starts_with("etcds://");
    if is_etcd && text.contains('@') {
        // The message leaves the URL out, because it may contain a password.
        let flags = "`--etcd-user` and `--etcd-password-file`";
        let refusal = format!("a store URL must not contain credentials; use {flags}");
        return Ok(GivenStore(Err(refusal)));
    }
    Ok(GivenStore(text.parse()))
}

fn parse_name(text: &str) -> Result<RunName, String> {
    RunName::new(text).map_err(|error| error.to_string())
}

fn parse_shard(text: &str) -> Result<u64, String> {
    let wrong = |_| format!("`{text}` is not a shard id in hexadecimal, like 8f00000000000001");
    u64::from_str_radix(text, 16).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// All commands, with the words that call them.
    fn commands() -> Vec<(String, clap::Command)> {
        let mut commands = vec![("shardwright".to_owned(), Arguments::command())];
        let mut next = 0;
        while let Some((name, command)) = commands.get(next).cloned() {
            let below = command.get_subcommands();
            commands.extend(below.map(|it| (format!("{name} {}", it.get_name()), it.clone())));
            next += 1;
        }
        commands
    }

    #[test]
    fn every_command_has_an_example_that_parses() {
        assert!(commands().len() > 25, "{}", commands().len());
        for (name, command) in commands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let example = help.strip_prefix("Example:\n  ").and_then(|help| help.lines().next());
            let example = example.unwrap_or_else(|| panic!("`{name}` has no example"));
            assert!(example.starts_with(&name), "the example of `{name}`: {example}");
            let words = example.split(" > ").next().unwrap_or_default().split(' ');
            let parsed = Arguments::try_parse_from(words);
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn every_command_and_argument_has_help() {
        for (name, command) in commands() {
            let arguments = command.get_arguments();
            let helps = arguments.map(|it| (format!("{name} {}", it.get_id()), it.get_help()));
            let all = helps.chain([(name.clone(), command.get_about())]);
            for (what, help) in all {
                let help = help.map(ToString::to_string).unwrap_or_default();
                assert!(help.starts_with(|first: char| first.is_uppercase()), "{what}: {help:?}");
                let names_a_file = help.contains("docs/") || help.contains(".md");
                assert!(!names_a_file, "{what} names a file that is not installed: {help}");
            }
        }
    }

    #[test]
    fn failure_limit_is_a_number_or_a_percentage() {
        assert_eq!("12".parse(), Ok(FailureLimit::Items(12)));
        assert_eq!("2.5%".parse(), Ok(FailureLimit::Percent(2.5)));
        for wrong in ["", "%", "-1", "101%", "ten", "NaN%"] {
            assert!(wrong.parse::<FailureLimit>().is_err(), "{wrong}");
        }
    }
}
