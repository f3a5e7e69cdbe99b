//! `shardwright scan`: searches a source for secrets.

use anyhow::Context as _;
use shardwright_jobs::begin::{begin, check, state_folder};
use shardwright_jobs::output::Replaced;
use shardwright_process::scan::{Format, RuleSet};

use crate::arguments::run::ScanArguments;
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
        "with --json, stdout contains events; use --report FILE for findings in another format"
    );
    if let Some(file) = &arguments.report {
        ensure_writable(file)?;
    }
    let rules = match &arguments.rules {
        Some(file) => RuleSet::read(file).context("cannot use the rules")?,
        None => RuleSet::built_in()?,
    };
    let as_run = arguments.as_run(rules.digest());
    let options = as_run.options();
    check(store, &options).await?;
    let coordinator = store.open(OpenMode::Write).await?;
    let state = state_folder(store)?;
    let scan = Scan { rules, arguments };
    loop {
        let begun = begin(store, &coordinator, &state, &options).await?;
        let done = work(&coordinator, json, begun, &as_run.work, Task::Scan(&scan)).await;
        // Another process has replaced the finished scan with a new one. Join that one.
        if !done.as_ref().is_err_and(|error| error.is::<Replaced>()) {
            return done;
        }
    }
}
