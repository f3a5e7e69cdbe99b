//! `shardwright run`: runs a command for every item of a source.

use shardwright_jobs::begin::{begin, check, state_folder};

use crate::arguments::run::RunArguments;
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
    work(&coordinator, json, begun, &arguments.work, Task::Rest).await
}
