//! What can be said on the command line.

pub(crate) mod cluster;
pub(crate) mod demo;
pub(crate) mod etcd;

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
use crate::store::StoreAddress;

/// Runs a command over everything in a source: in parallel, resumable after any kill, and with a
/// receipt that says what was covered.
#[derive(Debug, Parser)]
#[command(name = "shardwright", version, after_help = exit::HELP, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    /// Where all is kept: `file:FOLDER`, `memory:`, `etcd://HOST:PORT[,HOST:PORT…]`, or `etcds://…`
    /// for an etcd that speaks TLS [default: file:.shardwright].
    #[arg(long, global = true, value_name = "STORE", value_parser = parse_store)]
    pub(crate) store: Option<StoreAddress>,
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
    /// Runs a command for every item of a source; the same command again goes on.
    #[command(after_help = exit::HELP)]
    Run(Box<RunArguments>),
    /// Looks for secrets in every file of a folder, or every object of a store.
    #[command(after_help = exit::HELP)]
    Scan(Box<ScanArguments>),
    /// Lists runs.
    Runs,
    /// Shows a run.
    Show(RunChoice),
    /// Lists the shards of a run.
    Shards(RunChoice),
    /// Lists what failed in a run and was set aside.
    Parked(RunChoice),
    /// Lets what was set aside be tried again.
    Unpark(UnparkArguments),
    /// Tries what was set aside again, here and now.
    #[command(after_help = exit::HELP)]
    Retry(RetryArguments),
    /// Hands out nothing new of a run for the time being.
    Pause(RunChoice),
    /// Hands out work of a paused run again.
    Resume(RunChoice),
    /// Ends a run for good.
    Cancel(RunChoice),
    /// Checks a finished run's receipt against the store, the results and the source.
    Verify(VerifyArguments),
    /// Takes away runs that ended long ago.
    Gc(GcArguments),
    /// Makes all leases stale that runs have granted. To be said once after a store was restored
    /// from a backup, before anybody works on it.
    Restored,
    /// Serves shards of a cluster: a node of a service that counts.
    #[command(after_help = exit::HELP)]
    Node(Box<NodeArguments>),
    /// Takes calls of clients, over gRPC and HTTP, and brings them to the nodes.
    #[command(after_help = exit::HELP)]
    Gate(Box<GateArguments>),
    /// Looks at a cluster, and moves its shards.
    Cluster(Box<ClusterArguments>),
    /// Says where a call to an object goes, and why.
    Route(Box<RouteArguments>),
    /// Shows what it can do, on this machine.
    #[command(after_help = exit::HELP, subcommand)]
    Demo(DemoCommand),
    /// Writes a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Which run.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunChoice {
    /// Its name.
    #[arg(value_name = "RUN", value_parser = parse_name)]
    pub(crate) run: RunName,
}

#[derive(Args, Debug)]
pub(crate) struct UnparkArguments {
    #[command(flatten)]
    pub(crate) run: RunChoice,
    /// Only these shards, as `parked` names them.
    #[arg(value_name = "SHARD", value_parser = parse_shard)]
    pub(crate) shards: Vec<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct RetryArguments {
    /// What to try again; nothing else can be.
    #[arg(long, required = true)]
    parked: bool,
    /// The run [default: the one that has something parked].
    #[arg(value_name = "RUN", value_parser = parse_name)]
    pub(crate) run: Option<RunName>,
    #[command(flatten)]
    pub(crate) work: WorkArguments,
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArguments {
    #[command(flatten)]
    pub(crate) run: RunChoice,
    /// Believe the source: compare only receipt, store and results.
    #[arg(long)]
    pub(crate) without_source: bool,
}

#[derive(Args, Debug)]
pub(crate) struct GcArguments {
    /// Days that an ended run is kept.
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    pub(crate) keep_days: u64,
}

#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    /// A folder (one item per file), or the address of an object store.
    #[arg(value_name = "SOURCE", required_unless_present = "lines", conflicts_with = "lines")]
    pub(crate) source: Option<OsString>,
    /// The rows of a file instead; `-` reads them from the input.
    #[arg(long, value_name = "FILE")]
    pub(crate) lines: Option<PathBuf>,
    /// Rows end with a zero, not with a newline; so do items on a command's input.
    #[arg(long)]
    pub(crate) null: bool,
    /// Leave out what `.gitignore` files name.
    #[arg(long)]
    pub(crate) gitignore: bool,
    /// Start a process per N items: on its input, or as arguments where the command has a `{}`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: Option<u32>,
    /// Start a process per worker, which stays up and is fed items as docs/worker-protocol.md says.
    #[arg(long, conflicts_with = "batch")]
    pub(crate) persistent: bool,
    #[command(flatten)]
    pub(crate) work: WorkArguments,
    /// Count an item when it is handed out: faster, and a kill may lose what was under way.
    #[arg(long)]
    pub(crate) at_dispatch: bool,
    #[command(flatten)]
    pub(crate) make: MakeArguments,
    /// What to look for, if the command is ours.
    #[arg(skip)]
    pub(crate) scan: Option<Secrecy>,
    /// The command. `{}` stands for the item; without it, the item comes last. A persistent one
    /// gets its items otherwise.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Which run is meant, and how it is made if it is not there.
#[derive(Args, Clone, Debug)]
pub(crate) struct MakeArguments {
    /// Call the run this, instead of a name made of source and command.
    #[arg(long = "run", value_name = "NAME", value_parser = parse_name)]
    pub(crate) name: Option<RunName>,
    /// Begin a new run, even if there is one of that name.
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Where results go: a folder that every worker reaches, or the address of an object store.
    #[arg(long, value_name = "FOLDER|URL")]
    pub(crate) out: Option<OsString>,
    /// On a shared store: let every machine keep the results of its own work.
    #[arg(long, conflicts_with = "out")]
    pub(crate) out_local: bool,
    /// Into how many shards a new run is cut at first [default: four per worker].
    #[arg(long, value_name = "N", value_parser = between(1, 256))]
    pub(crate) shards: Option<u16>,
    /// After how many seconds without a sign of life a shard is given to another worker.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = between(1, 3_600))]
    pub(crate) lease: u16,
}

#[derive(Args, Debug)]
pub(crate) struct ScanArguments {
    /// A folder, or the address of an object store.
    #[arg(value_name = "SOURCE")]
    source: OsString,
    /// Rules in the Gitleaks format, instead of the default ones.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// How findings are written: `text`, `jsonl` or `sarif`.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: Format,
    /// Write findings to a file, not to the output.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write secrets as they are. They are also kept so in the results of the run.
    #[arg(long)]
    pub(crate) show_secrets: bool,
    /// Leave out what `.gitignore` files name.
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

    /// The same as a run whose command is ours; the rules' digest tells it from others.
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

/// How a run is worked on by this process.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WorkArguments {
    /// How many shards to work on at a time [default: one per core].
    #[arg(long, short = 'j', value_name = "N", value_parser = between(1, 1_024))]
    workers: Option<u16>,
    /// How many items (or batches) of one shard to work on at a time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = between(1, 4_096))]
    in_flight: u16,
    /// How often a failing item is tried again.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) retries: u32,
    /// Set an item aside unseen when so many workers in a row were lost with it.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = between(2, 10_000))]
    max_crashes: u16,
    /// Stop the run when more items than this have failed: a number, or a percentage like `5%`.
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
    /// The same for whoever begins the run.
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

    /// How items get to the command.
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

/// When too many items have failed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FailureLimit {
    Items(u64),
    Percent(f64),
}

impl std::str::FromStr for FailureLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is neither a number nor a percentage like `5%`");
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.parse().map_err(|_| wrong())?;
            let is_share = (0.0..=100.0).contains(&percent);
            return if is_share { Ok(Self::Percent(percent)) } else { Err(wrong()) };
        }
        text.parse().map(Self::Items).map_err(|_| wrong())
    }
}

fn parse_store(text: &str) -> Result<StoreAddress, String> {
    let is_etcd = text.starts_with("etcd://") || text.starts_with("etcds://");
    if is_etcd && text.contains('@') {
        // Not repeated: it may hold a password.
        let flags = "`--etcd-user` and `--etcd-password-file`";
        return Err(format!("an address names hosts; who we are is said with {flags}"));
    }
    text.parse()
}

fn parse_name(text: &str) -> Result<RunName, String> {
    RunName::new(text).map_err(|error| error.to_string())
}

fn parse_shard(text: &str) -> Result<u64, String> {
    let wrong = |_| format!("`{text}` is not the id of a shard, like 8f00000000000001");
    u64::from_str_radix(text, 16).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_failure_limit_is_a_number_or_a_percentage() {
        assert_eq!("12".parse(), Ok(FailureLimit::Items(12)));
        assert_eq!("2.5%".parse(), Ok(FailureLimit::Percent(2.5)));
        for wrong in ["", "%", "-1", "101%", "ten", "NaN%"] {
            assert!(wrong.parse::<FailureLimit>().is_err(), "{wrong}");
        }
    }
}
