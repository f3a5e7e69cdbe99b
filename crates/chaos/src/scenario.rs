//! The whole test: from the start of a cluster to a verdict.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use shardwright_store::testing::{EtcdCluster, EtcdSetup, Link};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::check::{Findings, check};
use crate::final_state::{self, FinalState};
use crate::fleet::Fleet;
use crate::history::History;
use crate::nemesis::{Members, QUOTA, Record, Until, Workers};
use crate::report::Report;

/// Number of worker processes.
const WORKERS: usize = 5;
/// Timeout for finishing all work after the faults have ended.
const FINISH_TIMEOUT: Duration = Duration::from_secs(90);

/// File name of the final state.
const FINAL: &str = "final.json";

/// Duration and seed.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Duration of the faults. Without one, until each fault has occurred.
    pub duration: Option<Duration>,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Runs a test, writes its histories to `folder` and checks them.
pub async fn run(settings: Settings, folder: &Path) -> Result<Report> {
    let record = Record::create(&folder.join("faults.log"))?;
    let mut cluster = EtcdSetup::members(3).linked().quota(QUOTA).start().await?;
    let fleet = Fleet::start(&cluster, WORKERS, folder, settings.seed).await?;
    let fleet = Arc::new(Mutex::new(fleet));
    let start = Instant::now();
    let until = settings.duration.map_or(Until::EachOccurred, |long| Until::Time(start + long));
    let mut rng = fastrand::Rng::with_seed(settings.seed);
    let workers = Workers { fleet: Arc::clone(&fleet), record: &record, rng: rng.fork() };
    let members = Members {
        cluster: &mut cluster,
        fleet: Arc::clone(&fleet),
        record: &record,
        rng: rng.fork(),
    };
    tokio::try_join!(workers.inject(until), members.inject(until))?;
    let lasted = start.elapsed();
    record.note("all faults have ended")?;
    // Continue if a worker does not finish: the history may show why.
    let unfinished = finish(&mut cluster, fleet).await.err();
    record.note("the workers have finished or timed out")?;
    let state = final_state::read(cluster.options()).await?;
    state.write(&folder.join(FINAL))?;
    let history = History::read(folder)?;
    let mut findings = check(&history, &state);
    findings.violations.extend(unfinished.map(|error| format!("{error:#}")));
    findings.violations.extend(missing(&record));
    Ok(Report::new(settings.seed, lasted, &history, &state, record.counts(), findings))
}

/// Checks the histories in a folder again.
pub fn judge(folder: &Path) -> Result<Findings> {
    let state = FinalState::from_file(&folder.join(FINAL))?;
    Ok(check(&History::read(folder)?, &state))
}

/// Creates a folder for histories.
pub fn folder() -> Result<PathBuf> {
    Ok(tempfile::Builder::new().prefix("shardwright-chaos-").tempdir()?.keep())
}

async fn finish(cluster: &mut EtcdCluster, fleet: Arc<Mutex<Fleet>>) -> Result<()> {
    cluster.answering().await?;
    let mut fleet =
        Arc::into_inner(fleet).context("the nemesis still holds the fleet")?.into_inner();
    for member in 0..cluster.len() {
        fleet.link_member(member, Link::Whole);
    }
    fleet.finish(FINISH_TIMEOUT).await
}

/// Faults that never occurred. A test without a fault proves nothing about it.
fn missing(record: &Record) -> Vec<String> {
    let missing = record.missing().into_iter();
    missing.map(|fault| format!("the fault `{}` never occurred", fault.name())).collect()
}
