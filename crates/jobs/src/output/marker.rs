//! Markers, which record the owner of a location of results.
//!
//! `run.json` names the run of the result file. A location has one owner. Only `--fresh` gives it
//! to another run of the same name, or `gc` when the owner was deleted.
//!
//! Beside the segments of each run is a marker of its own. It is written before the run can be
//! found. A process that joins the run and does not see the marker is at another location, even
//! with the same path.

use std::fmt;

use serde::{Deserialize, Serialize};
use shardwright_contracts::RunId;
use shardwright_coordination::{AsyncRunDirectory as _, RunName};

use super::{Output, SEGMENTS, parse_run, shown};
use crate::Coordinator;
use crate::TENANT;

pub(super) const MARKER: &str = "run.json";

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    run: String,
    name: String,
    /// Whether the run was deleted, and only its results are left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_gone: bool,
    /// Runs whose results may be here until this run has results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    predecessors: Vec<String>,
}

/// The location of a run's results belongs to another run now.
#[derive(Debug)]
pub struct Replaced {
    location: String,
}

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = &self.location;
        write!(
            f,
            "{location} belongs to a later run of that name; results of this run are not written"
        )
    }
}

impl std::error::Error for Replaced {}

/// The marker of a run beside its segments.
pub(super) fn own_marker(run: RunId) -> String {
    format!("{SEGMENTS}/{}/{MARKER}", shown(run))
}

impl Output {
    /// Checks that the location is free for a run, and writes the run's marker. No other process
    /// can find the run yet.
    pub async fn reserve(
        &self,
        name: RunName,
        run: RunId,
        may_replace: bool,
    ) -> anyhow::Result<()> {
        let marker = marker(name, run);
        self.ensure_free(self.marker(MARKER).await?.as_ref(), &marker, may_replace)?;
        self.write(&own_marker(run), serde_json::to_vec(&marker)?).await
    }

    /// Makes the run the owner of the location, if it has its name. A delayed process does not take
    /// the location from the run that has the name by now.
    pub(crate) async fn claim(
        &self,
        coordinator: &Coordinator,
        name: RunName,
        run: RunId,
        may_replace: bool,
    ) -> anyhow::Result<()> {
        let _alone = self.lock().await?;
        if coordinator.find_run(TENANT, name).await? != Some(run) {
            return Err(self.replaced());
        }
        let (found, mut wanted) = (self.marker(MARKER).await?, marker(name, run));
        self.ensure_free(found.as_ref(), &wanted, may_replace)?;
        if let Some(found) = found {
            wanted.predecessors = found.predecessors;
            wanted.predecessors.push(found.run);
            // A run owns the location again if the store was restored from a backup.
            wanted.predecessors.retain(|one| *one != wanted.run);
        }
        self.write(MARKER, serde_json::to_vec(&wanted)?).await
    }

    fn ensure_free(
        &self,
        found: Option<&Marker>,
        wanted: &Marker,
        may_replace: bool,
    ) -> anyhow::Result<()> {
        let Some(found) = found else { return Ok(()) };
        anyhow::ensure!(
            found.name == wanted.name,
            "{} belongs to run {}; {}",
            self.location(MARKER),
            found.name,
            self.interface.other_results()
        );
        anyhow::ensure!(
            found.run == wanted.run || found.is_gone || may_replace,
            "{} belongs to a run {} that is not in this store; {} to replace its results, or {}",
            self.location(MARKER),
            found.name,
            self.interface.start_over(),
            self.interface.other_results()
        );
        Ok(())
    }

    /// Checks that this is the location at which the run was created.
    pub async fn join(
        &self,
        coordinator: &Coordinator,
        name: RunName,
        run: RunId,
        is_begun: bool,
    ) -> anyhow::Result<()> {
        if self.is_local {
            // Each machine has its own location.
            self.create_folder()?;
            self.reserve(name, run, true).await?;
            return self.claim(coordinator, name, run, true).await;
        }
        // The creator claims the location before the run exists.
        anyhow::ensure!(
            self.is_reserved(run).await? && (!is_begun || self.is_owner(run).await?),
            "{} does not name this run: every worker must reach the location of results that the \
             run was started with; {} if they cannot",
            self.location(MARKER),
            self.interface.local_results()
        );
        // For results in an object store, the folder is local.
        self.create_folder()?;
        if is_begun { Ok(()) } else { self.claim(coordinator, name, run, true).await }
    }

    /// Whether a run's marker is here, or is not needed.
    pub(crate) async fn is_reserved(&self, run: RunId) -> anyhow::Result<bool> {
        let found = self.marker(&own_marker(run)).await?;
        Ok(self.is_local || found.is_some_and(|found| found.run == shown(run)))
    }

    pub(crate) async fn is_owner(&self, run: RunId) -> anyhow::Result<bool> {
        Ok(self.marker(MARKER).await?.is_some_and(|found| found.run == shown(run)))
    }

    /// Whether the results of a run were replaced. They outlast the ownership: the owner changes
    /// when another run starts, and the result file when that run ends.
    pub(super) async fn is_replaced(&self, run: RunId) -> anyhow::Result<bool> {
        let (found, run) = (self.marker(MARKER).await?, shown(run));
        Ok(found.is_some_and(|found| found.run != run && !found.predecessors.contains(&run)))
    }

    /// Checks that the run still owns the location.
    pub(crate) async fn ensure_current(&self, run: RunId) -> anyhow::Result<()> {
        match self.marker(MARKER).await? {
            Some(found) if found.run == shown(run) => Ok(()),
            Some(_) => Err(self.replaced()),
            None => anyhow::bail!(
                "{} is missing or damaged, so the owner of the results is unknown; {} to start the \
                 run over",
                self.location(MARKER),
                self.interface.start_over()
            ),
        }
    }

    fn replaced(&self) -> anyhow::Error {
        Replaced { location: self.location(MARKER) }.into()
    }

    /// Marks the run as deleted, so that a new run of the name may own the location.
    pub(super) async fn disown(&self, run: RunId) -> anyhow::Result<()> {
        let _alone = self.lock().await?;
        match self.marker(MARKER).await? {
            Some(found) if found.run == shown(run) => {
                let gone = Marker { is_gone: true, ..found };
                self.write(MARKER, serde_json::to_vec(&gone)?).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Deletes long outputs of replaced results. Their runs may be deleted, so nothing else would.
    pub(super) async fn clear_predecessors(&self, run: RunId) -> anyhow::Result<()> {
        let found = self.marker(MARKER).await?.filter(|found| found.run == shown(run));
        let Some(found) = found.filter(|found| !found.predecessors.is_empty()) else {
            return Ok(());
        };
        // Only ids of runs are names of our folders.
        for replaced in found.predecessors.iter().filter_map(|shown| parse_run(shown)) {
            self.clear_long_outputs(replaced).await?;
        }
        let alone = Marker { predecessors: Vec::new(), ..found };
        self.write(MARKER, serde_json::to_vec(&alone)?).await
    }

    async fn marker(&self, file: &str) -> anyhow::Result<Option<Marker>> {
        let found = self.read(file).await?;
        Ok(found.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }
}

fn marker(name: RunName, run: RunId) -> Marker {
    Marker { run: shown(run), name: name.to_string(), is_gone: false, predecessors: Vec::new() }
}
