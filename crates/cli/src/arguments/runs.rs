//! The arguments of the commands about runs that exist.

use std::ffi::OsString;

use clap::Args;
use shardwright_coordination::RunName;

use super::items::{ItemArguments, LimitArguments};
use super::parse_name;
use super::run::WorkArguments;

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
    pub(crate) items: ItemArguments,
    #[command(flatten)]
    pub(crate) limits: LimitArguments,
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

fn parse_shard(text: &str) -> Result<u64, String> {
    let wrong = |_| format!("`{text}` is not a shard id in hexadecimal, like 8f00000000000001");
    u64::from_str_radix(text, 16).map_err(wrong)
}
