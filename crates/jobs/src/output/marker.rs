//! What says whose results are in a place.
//!
//! `run.json` says of which run the result file is, or will be: a place has one owner, and only
//! `--fresh` gives it to another run of the same name, or `gc` when the owner is gone. Beside the
//! segments of each run there is a marker of its own, which is there before anybody can find the
//! run. Whoever joins the run and does not see it is in another place, whatever the path says.

use std::fmt;

use serde::{Deserialize, Serialize};
use shardwright_contracts::RunId;
use shardwright_coordination::{AsyncRunDirectory as _, RunName};

use super::{Output, SEGMENTS, run_shown, shown};
use crate::Coordinator;
use crate::TENANT;

const MARKER: &str = "run.json";

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    run: String,
    name: String,
    /// Whether the run is gone, and only its results are left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_gone: bool,
    /// Runs whose results may be here until this one has its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    predecessors: Vec<String>,
}

/// The place of a run's results is of another run now.
#[derive(Debug)]
pub struct Replaced {
    place: String,
}

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        write!(f, "{place} is of a later run of that name: results of this one are not written")
    }
}

impl std::error::Error for Replaced {}

/// The marker of a run beside its segments.
pub(super) fn own_marker(run: RunId) -> String {
    format!("{SEGMENTS}/{}/{MARKER}", shown(run))
}

impl Output {
    /// Makes sure that results of a run can go here, and leaves its marker. Nobody else can find
    /// the run yet.
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

    /// Says that the results here are of this run, if it has its name now. Whoever was held up
    /// since it had does not take the place from the run that has it by now.
    pub(crate) async fn claim(
        &self,
        coordinator: &Coordinator,
        name: RunName,
        run: RunId,
        may_replace: bool,
    ) -> anyhow::Result<()> {
        let _alone = self.lock().await;
        if coordinator.find_run(TENANT, name).await? != Some(run) {
            return Err(self.replaced());
        }
        let (found, mut wanted) = (self.marker(MARKER).await?, marker(name, run));
        self.ensure_free(found.as_ref(), &wanted, may_replace)?;
        if let Some(found) = found {
            wanted.predecessors = found.predecessors;
            wanted.predecessors.push(found.run);
            // A run has its place again if the store was set back to when it had its name.
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
            "{} is of the run {}; say another place for results with --out",
            self.place(MARKER),
            found.name
        );
        anyhow::ensure!(
            found.run == wanted.run || found.is_gone || may_replace,
            "{} is of a run {} that this store does not know; say --fresh to replace its results, \
             or another place with --out",
            self.place(MARKER),
            found.name
        );
        Ok(())
    }

    /// Makes sure that this is the place that the run's maker meant.
    pub async fn join(
        &self,
        coordinator: &Coordinator,
        name: RunName,
        run: RunId,
        is_begun: bool,
    ) -> anyhow::Result<()> {
        self.make_folder()?;
        if self.is_local {
            // Each machine has a place of its own.
            self.reserve(name, run, true).await?;
            return self.claim(coordinator, name, run, true).await;
        }
        // Whoever makes a run claims the place before it is begun.
        anyhow::ensure!(
            self.is_reserved(run).await? && (!is_begun || self.is_owner(run).await?),
            "{} does not say that results of this run go there: every worker has to reach the \
             place that it was begun with; say --out-local to a new run if they cannot",
            self.place(MARKER)
        );
        if is_begun { Ok(()) } else { self.claim(coordinator, name, run, true).await }
    }

    /// Whether a run's marker is here, or need not be.
    pub(crate) async fn is_reserved(&self, run: RunId) -> anyhow::Result<bool> {
        let found = self.marker(&own_marker(run)).await?;
        Ok(self.is_local || found.is_some_and(|found| found.run == shown(run)))
    }

    async fn is_owner(&self, run: RunId) -> anyhow::Result<bool> {
        Ok(self.marker(MARKER).await?.is_some_and(|found| found.run == shown(run)))
    }

    /// Whether results of a run are known to be here no more. They may outlast what the place is
    /// of: it changes hands when another run begins, and the result file when that one has ended.
    pub(super) async fn is_replaced(&self, run: RunId) -> anyhow::Result<bool> {
        let (found, run) = (self.marker(MARKER).await?, shown(run));
        Ok(found.is_some_and(|found| found.run != run && !found.predecessors.contains(&run)))
    }

    /// Makes sure that the place is still this run's.
    pub(crate) async fn ensure_current(&self, run: RunId) -> anyhow::Result<()> {
        match self.marker(MARKER).await? {
            Some(found) if found.run == shown(run) => Ok(()),
            Some(_) => Err(self.replaced()),
            None => anyhow::bail!(
                "{} does not say any more of which run the results there are; say --fresh to begin \
                 it anew",
                self.place(MARKER)
            ),
        }
    }

    fn replaced(&self) -> anyhow::Error {
        Replaced { place: self.place(MARKER) }.into()
    }

    /// Leaves the place to whoever begins a run anew that is gone.
    pub(super) async fn give_up(&self, run: RunId) -> anyhow::Result<()> {
        let _alone = self.lock().await;
        match self.marker(MARKER).await? {
            Some(found) if found.run == shown(run) => {
                let gone = Marker { is_gone: true, ..found };
                self.write(MARKER, serde_json::to_vec(&gone)?).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Takes away what results named that were here before those of a run. Nobody else will, if
    /// their runs are gone.
    pub(super) async fn clear_predecessors(&self, run: RunId) -> anyhow::Result<()> {
        let found = self.marker(MARKER).await?.filter(|found| found.run == shown(run));
        let Some(found) = found.filter(|found| !found.predecessors.is_empty()) else {
            return Ok(());
        };
        // Only what is the id of a run is a name of ours.
        for replaced in found.predecessors.iter().filter_map(|shown| run_shown(shown)) {
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
