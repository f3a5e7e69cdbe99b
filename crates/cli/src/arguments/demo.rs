//! What can be said about demonstrations.

use clap::builder::{RangedI64ValueParser, RangedU64ValueParser};
use clap::{Args, Subcommand};

use crate::demo::Event;

#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Starts a cluster on this machine, has it called, and adds, ends and kills nodes.
    Cluster(DemoClusterArguments),
}

#[derive(Args, Debug)]
pub(crate) struct DemoClusterArguments {
    /// How many nodes there are at first.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = up_to(32))]
    pub(crate) nodes: u32,
    /// How many gates there are.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = up_to(8))]
    pub(crate) gates: u32,
    /// How many shards there are.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = up_to(8_192))]
    pub(crate) shards: u32,
    /// How many calls are made a second.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = up_to(100_000))]
    pub(crate) rate: u32,
    /// How many counters are called.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = up_to(1_000_000))]
    pub(crate) counters: u32,
    /// How long a call may take; it is made once.
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = ms(1, 60_000))]
    pub(crate) deadline_ms: u64,
    /// How long a node outlives its last sign of life.
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = ms(1_000, 60_000))]
    pub(crate) session_ms: u64,
    /// How long nothing is done after each event; as long as a call may take at least.
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = ms(0, 600_000))]
    pub(crate) calm_ms: u64,
    /// What is done, in this order: calm, join, drain, terminate, kill, pause or store.
    #[arg(long, value_delimiter = ',', default_value = "join,terminate,kill")]
    pub(crate) events: Vec<Event>,
}

fn up_to(most: i64) -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=most)
}

fn ms(least: u64, most: u64) -> RangedU64ValueParser {
    clap::value_parser!(u64).range(least..=most)
}
