//! `shardwright run`: runs a command for every item of a source.

use std::ffi::OsString;

use shardwright_jobs::begin::{begin, check, state_folder};
use shardwright_jobs::command::template_of;
use shardwright_jobs::source::Source;

use crate::after::wait_for;
use crate::arguments::run::RunArguments;
use crate::console::errln;
use crate::dry_run::dry_run;
use crate::exit::Exit;
use crate::store::{OpenMode, OpenStore as _, StoreAddress};
use crate::work::{Task, work};

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &RunArguments,
) -> anyhow::Result<Exit> {
    let options = arguments.options();
    // Before the wait for other runs.
    drop(template_of(&options)?);
    if arguments.begin.dry_run {
        return dry_run(store, json, arguments).await;
    }
    let after = &arguments.begin.after;
    let coordinator = if after.is_empty() {
        check(store, &options).await?;
        store.open(OpenMode::Write).await?
    } else {
        anyhow::ensure!(
            options.name.is_none_or(|name| !after.contains(&name)),
            "a run cannot begin after itself"
        );
        let coordinator = store.open(OpenMode::Read).await?;
        wait_for(store, &coordinator, json, after).await?;
        // The runs before may have created the source.
        check(store, &options).await?;
        coordinator
    };
    let state = state_folder(store)?;
    let begun = begin(store, &coordinator, &state, &options).await?;
    if !json && !begun.is_resumed && arguments.source.is_guessed() {
        hint(&begun.description.source, &options.sources);
    }
    work(&coordinator, json, begun, &arguments.work, Task::Rest).await
}

/// States that a file is read line by line, because the file itself may have been meant.
fn hint(source: &Source, given: &[OsString]) {
    if let (Source::Lines { piped: false, .. }, [file]) = (source, given) {
        let file = file.display();
        errln!("reading the lines of {file} (--files processes the file itself)");
    }
}
