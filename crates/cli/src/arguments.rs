//! The arguments of the command line.

pub(crate) mod cluster;
pub(crate) mod demo;
pub(crate) mod duration;
pub(crate) mod etcd;
pub(crate) mod items;
pub(crate) mod listen;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod source;
pub(crate) mod view;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use shardwright_coordination::RunName;

use self::cluster::{ClusterArguments, GateArguments, NodeArguments, RouteArguments};
use self::demo::DemoCommand;
use self::etcd::EtcdFlags;
use self::run::{RunArguments, ScanArguments};
use self::runs::{GcArguments, RetryArguments, RunChoice, UnparkArguments, VerifyArguments};
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
    #[command(after_help = with_codes(NODE_EXAMPLE, exit::NODE_CODES))]
    Node(Box<NodeArguments>),
    /// Start a gate: accept client calls over gRPC and HTTP and route them to nodes.
    #[command(after_help = with_codes(GATE_EXAMPLE, exit::GATE_CODES))]
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
}
