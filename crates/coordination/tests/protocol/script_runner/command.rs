//! What a line of a script does: a request to the coordinator, or a change of the test's world.

use shardwright_contracts::{FenceEpoch, LogicalTime, RunId, ShardId, TenantId, WorkerId};
use shardwright_coordination::operation::GetRun;
use shardwright_coordination::{CoordinatorRuntimeConfig, Request};

use super::literal::number;
use super::words::{Parsed, Words};
use super::world::World;

const DEFAULT_TENANT: &str = "acme";
const DEFAULT_RUN: &str = "main";
/// Maximum shards of a script. The limit is low because every script makes a coordinator.
const SCRIPT_SHARDS_MAX: usize = 20_000;

pub(super) enum Command {
    Coordinator(CoordinatorRuntimeConfig),
    RaiseFloor(FenceEpoch),
    Call(Request<Vec<u8>>),
    ShowShard(ShardId),
    Events,
}

/// Why a line has no command.
pub(super) enum NoCommand {
    /// The script is wrong.
    Mistake(String),
    /// The client refuses to send the request. The text is the answer.
    Refused(String),
}

impl From<String> for NoCommand {
    fn from(mistake: String) -> Self {
        Self::Mistake(mistake)
    }
}

/// The tenant and the run of a line, and the lease that it shows.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    pub(super) tenant: TenantId,
    pub(super) run: RunId,
    /// Shows a lease of this fence instead of the one that the worker was granted last.
    pub(super) fence: Option<u64>,
}

impl World {
    /// Reads what comes before a command and sets the clock.
    pub(super) fn scope(&mut self, words: &mut Words<'_>) -> Parsed<Scope> {
        if let Some(at) = words.after("at").map(number).transpose()? {
            self.now = LogicalTime::from_millis(at);
        }
        let tenant = self.names.tenant(words.after("as").unwrap_or(DEFAULT_TENANT));
        let run = self.names.run(words.after("in").unwrap_or(DEFAULT_RUN));
        let fence = words.after("fence").map(number).transpose()?;
        Ok(Scope { tenant, run, fence })
    }

    /// Reads a command.
    pub(super) fn command(
        &self,
        scope: Scope,
        words: &mut Words<'_>,
    ) -> Result<Command, NoCommand> {
        let name = words.next()?;
        if let Some(Ok(worker)) = name.strip_prefix('w').map(str::parse) {
            let worker = WorkerId::from_raw(worker);
            return self.worker_request(scope, worker, words).map(Command::Call);
        }
        Ok(match name {
            "coordinator" => Command::Coordinator(runtime_config(words)?),
            "raise-floor" => {
                let floor = FenceEpoch::from_raw(number(words.next()?)?);
                Command::RaiseFloor(floor.map_err(|error| error.to_string())?)
            }
            "events" => Command::Events,
            "show" => match words.next()? {
                "run" => Command::Call(GetRun { run: scope.run }.into()),
                "shard" => Command::ShowShard(self.names.shard(words.next()?)?),
                other => return Err(format!("cannot show `{other}`").into()),
            },
            name => Command::Call(self.run_request(scope, name, words)?),
        })
    }
}

fn runtime_config(words: &mut Words<'_>) -> Parsed<CoordinatorRuntimeConfig> {
    let mut config = default_runtime_config();
    while let Some(word) = words.optional() {
        let (name, value) = word.split_once('=').ok_or("a setting is `name=number`")?;
        let value = number(value)?;
        match name {
            "tenant-shards" => config.max_shards_per_tenant = value as usize,
            "total-shards" => config.max_total_shards = value as usize,
            "cooldown" => config.claim_cooldown_interval_ms = value,
            "bytes" => config.slab_capacity = value as u32,
            "fence-floor" => {
                config.fence_floor = FenceEpoch::from_raw(value).map_err(|e| e.to_string())?;
            }
            other => return Err(format!("a coordinator has no setting `{other}`")),
        }
    }
    Ok(config)
}

/// The coordinator of a script that does not configure one.
pub(super) fn default_runtime_config() -> CoordinatorRuntimeConfig {
    CoordinatorRuntimeConfig {
        max_shards_per_tenant: SCRIPT_SHARDS_MAX,
        max_total_shards: SCRIPT_SHARDS_MAX,
        slab_capacity: 1 << 20,
        ..CoordinatorRuntimeConfig::default()
    }
}
