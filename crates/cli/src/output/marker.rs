//! What says whose results are in a place.
//!
//! `run.json` says of which run the result file is, or will be: a place has one owner, and only
//! `--fresh` gives it to another run of the same name. Beside the segments of each run there is a
//! marker of its own, which is there before anybody can find the run. Whoever joins the run and
//! does not see it is in another place, whatever the path says.

use std::fmt;

use serde::{Deserialize, Serialize};
use shardwright_contracts::RunId;
use shardwright_coordination::RunName;

use super::{Output, SEGMENTS, shown};

const MARKER: &str = "run.json";

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    run: String,
    name: String,
}

/// The place of a run's results is of another run now.
#[derive(Debug)]
pub(crate) struct Replaced {
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
    pub(crate) async fn reserve(
        &self,
        name: RunName,
        run: RunId,
        may_replace: bool,
    ) -> anyhow::Result<()> {
        self.ensure_free(&marker(name, run), may_replace).await?;
        self.write(&own_marker(run), serde_json::to_vec(&marker(name, run))?).await
    }

    /// Says that the results here are of this run, which has its name now.
    pub(crate) async fn claim(
        &self,
        name: RunName,
        run: RunId,
        may_replace: bool,
    ) -> anyhow::Result<()> {
        let _alone = self.lock();
        self.ensure_free(&marker(name, run), may_replace).await?;
        self.write(MARKER, serde_json::to_vec(&marker(name, run))?).await
    }

    async fn ensure_free(&self, wanted: &Marker, may_replace: bool) -> anyhow::Result<()> {
        let Some(found) = self.marker(MARKER).await? else { return Ok(()) };
        anyhow::ensure!(
            found.name == wanted.name,
            "{} is of the run {}; say another place for results with --out",
            self.place(MARKER),
            found.name
        );
        anyhow::ensure!(
            found == *wanted || may_replace,
            "{} is of a run {} that this store does not know; say --fresh to replace its results, \
             or another place with --out",
            self.place(MARKER),
            found.name
        );
        Ok(())
    }

    /// Makes sure that this is the place that the run's maker meant.
    pub(crate) async fn join(
        &self,
        name: RunName,
        run: RunId,
        is_begun: bool,
    ) -> anyhow::Result<()> {
        self.make_folder()?;
        if self.is_local {
            // Each machine has a place of its own.
            self.reserve(name, run, true).await?;
            return self.claim(name, run, true).await;
        }
        let is_ours = |found: Option<Marker>| found.is_some_and(|it| it.run == shown(run));
        let is_here = is_ours(self.marker(&own_marker(run)).await?);
        // Whoever makes a run claims the place before it is begun.
        anyhow::ensure!(
            is_here && (!is_begun || is_ours(self.marker(MARKER).await?)),
            "{} does not say that results of this run go there: every worker has to reach the \
             place that it was begun with; say --out-local to a new run if they cannot",
            self.place(MARKER)
        );
        if is_begun { Ok(()) } else { self.claim(name, run, true).await }
    }

    /// Makes sure that the place is still this run's.
    pub(crate) async fn ensure_current(&self, run: RunId) -> anyhow::Result<()> {
        let found = self.marker(MARKER).await?;
        if found.is_none_or(|marker| marker.run == shown(run)) {
            return Ok(());
        }
        Err(Replaced { place: self.place(MARKER) }.into())
    }

    async fn marker(&self, file: &str) -> anyhow::Result<Option<Marker>> {
        let found = self.read(file).await?;
        Ok(found.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }
}

fn marker(name: RunName, run: RunId) -> Marker {
    Marker { run: shown(run), name: name.to_string() }
}
