//! The arguments of the demonstrations.

use clap::builder::{RangedI64ValueParser, RangedU64ValueParser};
use clap::{Args, Subcommand};

use super::with_codes;
use crate::demo::Event;
use crate::exit;

const EXAMPLE: &str = "shardwright demo cluster --nodes 5 --events join,drain,kill";

#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Start a cluster on this machine, call it, and add, stop and kill nodes meanwhile.
    #[command(after_help = with_codes(EXAMPLE, exit::DEMO_CODES))]
    Cluster(DemoClusterArguments),
}

#[derive(Args, Debug)]
pub(crate) struct DemoClusterArguments {
    /// Start with N nodes.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = up_to(32))]
    pub(crate) nodes: u32,
    /// Start N gates.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = up_to(8))]
    pub(crate) gates: u32,
    /// Number of shards.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = up_to(8_192))]
    pub(crate) shards: u32,
    /// Make N calls per second.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = up_to(100_000))]
    pub(crate) rate: u32,
    /// Spread the calls over N counters.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = up_to(1_000_000))]
    pub(crate) counters: u32,
    /// Count a call as failed after MS milliseconds; failed calls are not retried.
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = ms(1, 60_000))]
    pub(crate) deadline_ms: u64,
    /// Session TTL: remove a node that has not renewed its session for MS milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = ms(1_000, 60_000))]
    pub(crate) session_ms: u64,
    /// Pause after each event for MS milliseconds, but at least for the call deadline.
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = ms(0, 600_000))]
    pub(crate) calm_ms: u64,
    /// Run these events in order: calm (calls only), join, drain, terminate (SIGTERM), kill, pause
    /// (leader), store (5 s for you to disturb the store).
    #[arg(long, value_name = "EVENTS", value_delimiter = ',')]
    #[arg(default_value = "join,terminate,kill")]
    pub(crate) events: Vec<Event>,
}

fn up_to(most: i64) -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=most)
}

fn ms(least: u64, most: u64) -> RangedU64ValueParser {
    clap::value_parser!(u64).range(least..=most)
}
