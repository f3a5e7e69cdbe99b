//! `shardwright run`: the main job.

use shardwright_jobs::begin::{begin, state_folder};
use shardwright_jobs::description::Mode;
use shardwright_process::Template;

use crate::arguments::RunArguments;
use crate::exit::Exit;
use crate::store::{OpenMode, OpenStore as _, StoreAddress};
use crate::work::{Task, work};

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &RunArguments,
) -> anyhow::Result<Exit> {
    let template = Template::new(&arguments.command)?;
    anyhow::ensure!(
        arguments.mode() != Mode::Persistent || !template.has_place(),
        "a persistent command is started before there is an item: it cannot have a {{}}"
    );
    let state = state_folder(store)?;
    let coordinator = store.open(OpenMode::Write).await?;
    let begun = begin(store, &coordinator, &state, &arguments.options()).await?;
    work(&coordinator, json, begun, &arguments.work, Task::Rest).await
}
