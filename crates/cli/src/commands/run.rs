//! `shardwright run`: runs a command for every item of a source.

use std::ffi::OsString;

use shardwright_jobs::begin::{begin, check, state_folder};
use shardwright_jobs::source::Source;

use crate::arguments::run::RunArguments;
use crate::console::errln;
use crate::exit::Exit;
use crate::store::{OpenMode, OpenStore as _, StoreAddress};
use crate::work::{Task, work};

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &RunArguments,
) -> anyhow::Result<Exit> {
    let options = arguments.options();
    check(store, &options).await?;
    let coordinator = store.open(OpenMode::Write).await?;
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
