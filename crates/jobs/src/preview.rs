//! What a command would do, without any change.

use std::path::PathBuf;

use shardwright_coordination::{AsyncRunDirectory as _, RunName};
use shardwright_store::StoreAddress;
use shardwright_worker::connector::{Connector as _, KeyRange};

use crate::agreement::Requested;
use crate::begin::{check, derived_name, location_of, requested_results, shards_of};
use crate::description::{Description, Results, future_path, path_of};
use crate::options::JobOptions;
use crate::source::{AnyConnector, Source};
use crate::{Coordinator, TENANT};

/// What a command would do.
pub struct Preview {
    /// The name of the run.
    pub name: RunName,
    /// The run of the name that the command would resume.
    pub existing: Option<Description>,
    /// The source.
    pub source: Source,
    /// The opened source.
    pub connector: AnyConnector,
    /// The ranges of the first shards of a new run.
    pub ranges: Vec<KeyRange>,
    /// Stdin, and the index of a file of rows.
    _scratch: tempfile::TempDir,
}

/// Opens the source of a command, and divides it like a new run would. Without a coordinator there
/// is no run yet. Fails where the command would fail.
pub async fn preview(
    store: &StoreAddress,
    coordinator: Option<&Coordinator>,
    options: &JobOptions,
) -> anyhow::Result<Preview> {
    check(store, options).await?;
    let scratch = tempfile::tempdir()?;
    let source = Source::from_options(options, scratch.path()).await?;
    let name = options.name.unwrap_or_else(|| derived_name(&source, options));
    let existing = match coordinator {
        Some(coordinator) if !options.fresh => {
            existing(coordinator, name, &source, options).await?
        }
        _ => None,
    };
    let state = future_path(store.state_folder())?;
    let results = location_of(store, options, &state, name)?;
    source.ensure_without(&results)?;
    let ours = match &results {
        Results::Folder { path } => vec![path_of(path), state],
        Results::Objects { .. } | Results::Local => vec![state],
    };
    let ours: Vec<PathBuf> = ours.into_iter().filter(|folder| folder.is_dir()).collect();
    let connector = source.open(&options.given(), scratch.path(), &ours).await?;
    let ranges = connector.initial_ranges(shards_of(options)).await?;
    Ok(Preview { name, existing, source, connector, ranges, _scratch: scratch })
}

/// The run of a name, if it is the requested one.
async fn existing(
    coordinator: &Coordinator,
    name: RunName,
    source: &Source,
    options: &JobOptions,
) -> anyhow::Result<Option<Description>> {
    let Some(run) = coordinator.find_run(TENANT, name).await? else { return Ok(None) };
    let Some(label) = coordinator.label_of(TENANT, run).await? else { return Ok(None) };
    let results = requested_results(options)?;
    let requested = Requested { options, source, results: results.as_ref() };
    let description = Description::decode(&label.description)?;
    requested.ensure_same(name, &description)?;
    Ok(Some(description))
}
