//! From a cluster that has just been started to a verdict.

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

/// How many worker processes there are.
const WORKERS: usize = 5;
/// How long a healed cluster and its workers may take to finish everything.
const HEALED: Duration = Duration::from_secs(90);

/// Where the final state is written down.
const FINAL: &str = "final.json";

/// How long and with which choices.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long faults go on; until each has come once, if none is given.
    pub duration: Option<Duration>,
    /// What all choices depend on.
    pub seed: u64,
}

/// Lives through a storm whose histories go to `folder`, and judges it.
pub async fn live(settings: Settings, folder: &Path) -> Result<Report> {
    let record = Record::create(&folder.join("faults.log"))?;
    let mut cluster = EtcdSetup::members(3).linked().quota(QUOTA).start().await?;
    let fleet = Fleet::start(&cluster, WORKERS, folder, settings.seed).await?;
    let fleet = Arc::new(Mutex::new(fleet));
    let start = Instant::now();
    let until = settings.duration.map_or(Until::EachCameOnce, |long| Until::Time(start + long));
    let mut chance = fastrand::Rng::with_seed(settings.seed);
    let workers = Workers { fleet: Arc::clone(&fleet), record: &record, chance: chance.fork() };
    let members = Members {
        cluster: &mut cluster,
        fleet: Arc::clone(&fleet),
        record: &record,
        chance: chance.fork(),
    };
    tokio::try_join!(workers.trouble(until), members.trouble(until))?;
    let lasted = start.elapsed();
    record.note("all is well again")?;
    // Go on if a worker does not finish: the history may show why.
    let unfinished = finish(&mut cluster, fleet).await.err();
    record.note("all is finished, or never will be")?;
    let state = final_state::read(cluster.options()).await?;
    state.write(&folder.join(FINAL))?;
    let history = History::read(folder)?;
    let mut findings = check(&history, &state);
    findings.violations.extend(unfinished.map(|error| format!("{error:#}")));
    findings.violations.extend(missing(&record));
    Ok(Report::new(settings.seed, lasted, &history, &state, record.counts(), findings))
}

/// Judges a folder once more.
pub fn judge(folder: &Path) -> Result<Findings> {
    let state = FinalState::from_file(&folder.join(FINAL))?;
    Ok(check(&History::read(folder)?, &state))
}

/// A folder for histories.
pub fn folder() -> Result<PathBuf> {
    Ok(tempfile::Builder::new().prefix("shardwright-chaos-").tempdir()?.keep())
}

async fn finish(cluster: &mut EtcdCluster, fleet: Arc<Mutex<Fleet>>) -> Result<()> {
    cluster.answering().await?;
    let mut fleet = Arc::into_inner(fleet).context("the nemesis still runs")?.into_inner();
    for member in 0..cluster.len() {
        fleet.link_member(member, Link::Whole);
    }
    fleet.finish(HEALED).await
}

/// A storm in which some fault never came says nothing about it.
fn missing(record: &Record) -> Vec<String> {
    let missing = record.missing().into_iter();
    missing.map(|fault| format!("the fault `{}` never came", fault.name())).collect()
}
