//! `shardwright scan`: the built-in job.

use anyhow::Context as _;
use shardwright_jobs::begin::{begin, state_folder};
use shardwright_jobs::output::Replaced;
use shardwright_process::scan::{Format, RuleSet};

use crate::arguments::ScanArguments;
use crate::exit::Exit;
use crate::scan::{Scan, ensure_writable};
use crate::store::{OpenMode, OpenStore as _, StoreAddress};
use crate::work::{Task, work};

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &ScanArguments,
) -> anyhow::Result<Exit> {
    anyhow::ensure!(
        !json || arguments.format == Format::Text || arguments.report.is_some(),
        "with --json the output is for events; say --report FILE for the findings"
    );
    if let Some(file) = &arguments.report {
        ensure_writable(file)?;
    }
    let rules = match &arguments.rules {
        Some(file) => RuleSet::read(file).context("these rules cannot be used")?,
        None => RuleSet::built_in()?,
    };
    let as_run = arguments.as_run(rules.digest());
    let options = as_run.options();
    let state = state_folder(store)?;
    let coordinator = store.open(OpenMode::Write).await?;
    let scan = Scan { rules, arguments };
    loop {
        let begun = begin(store, &coordinator, &state, &options).await?;
        let done = work(&coordinator, json, begun, &as_run.work, Task::Scan(&scan)).await;
        // Whoever came when it had ended looks for what is there now, and so does this one then.
        if !done.as_ref().is_err_and(|error| error.is::<Replaced>()) {
            return done;
        }
    }
}
