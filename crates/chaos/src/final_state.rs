//! The stored records at the end, read with a new coordinator.

mod audit;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use shardwright_contracts::RunId;
use shardwright_coordination::{
    AsyncRunManagement as _, InfraError, RunProgress, RunQueryError, RunStatus, ShardFilter,
    ShardSummary,
};
use shardwright_runs::{AsyncEtcdCoordinator, EngineConfig};
use shardwright_store::etcd::EtcdOptions;

use crate::check::Seen;
use crate::history::Status;
use crate::plan;
use crate::plan::TENANT;

/// The stored records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalState {
    /// The runs, in the order of their creation.
    pub runs: Vec<FinalRun>,
    /// Wrong counts, missing and leftover records.
    pub complaints: Vec<String>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalRun {
    /// Its id.
    pub run: u64,
    /// Whether it ended as done.
    pub is_done: bool,
    /// Its shards.
    pub shards: Vec<FinalShard>,
    /// Its own counts of active, done, split and parked shards.
    pub counts: [u32; 4],
    /// Its stored watermark.
    pub watermark: Option<u64>,
}

/// A shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalShard {
    /// Its id.
    pub shard: u64,
    /// The shard that it was split from.
    pub parent: Option<u64>,
    /// Its state.
    pub seen: Seen,
}

/// Reads all records with a new coordinator. An unreadable record is a violation.
pub async fn read(options: EtcdOptions) -> Result<FinalState> {
    let coordinator = AsyncEtcdCoordinator::on_etcd(options, EngineConfig::default()).await?;
    let mut state = FinalState::default();
    for number in 1.. {
        match run(&coordinator, number).await {
            Ok(run) => state.runs.push(run),
            Err(RunQueryError::RunNotFound(_)) => break,
            Err(RunQueryError::BackendError(InfraError::Corrupt { message, .. })) => {
                state.complaints.push(format!("run {number} is unreadable: {message}"));
            }
            Err(error) => bail!("run {number}: {error}"),
        }
    }
    state.complaints.extend(audit::complaints(coordinator.store()).await?);
    Ok(state)
}

async fn run(coordinator: &AsyncEtcdCoordinator, number: u64) -> Result<FinalRun, RunQueryError> {
    let run = RunId::from_raw(number);
    let record = coordinator.get_run(TENANT, run).await?;
    let shards = coordinator.list_shards(TENANT, run, ShardFilter::all()).await?;
    let progress = coordinator.get_run_progress(TENANT, run).await?;
    let RunProgress { active, done, split, parked, watermark, .. } = progress;
    Ok(FinalRun {
        run: number,
        is_done: record.status == RunStatus::Done,
        shards: shards.iter().map(summary).collect(),
        counts: [active, done, split, parked],
        watermark: watermark.as_deref().map(plan::number),
    })
}

fn summary(summary: &ShardSummary) -> FinalShard {
    let seen = Seen {
        status: Status::from(summary.status),
        start: plan::number(&summary.start),
        end: plan::number(&summary.end),
        cursor: summary.last_key.as_deref().map(plan::number),
        acquires: summary.acquire_count,
    };
    let parent = summary.parent.map(|parent| parent.as_raw());
    FinalShard { shard: summary.shard.as_raw(), parent, seen }
}

impl FinalState {
    /// Writes the state to a file, so that it can be checked again.
    pub fn write(&self, path: &std::path::Path) -> Result<()> {
        Ok(std::fs::write(path, serde_json::to_vec_pretty(self)?)?)
    }

    /// Reads the state from a file.
    pub fn from_file(path: &std::path::Path) -> Result<Self> {
        let text = std::fs::read(path).with_context(|| path.display().to_string())?;
        Ok(serde_json::from_slice(&text)?)
    }
}
