use crate::commands::print_json;
use crate::exit::Exit;
use crate::say::say;
use crate::store::{Coordinator, OpenMode, OpenStore as _, StoreAddress};

pub(crate) async fn run(store: &StoreAddress, json: bool) -> anyhow::Result<Exit> {
    anyhow::ensure!(*store != StoreAddress::Memory, "a store in memory cannot be restored");
    let (opened, keys) = store.connect_for(OpenMode::Read, "runs", None).await?;
    anyhow::ensure!(
        Coordinator::is_set_up(opened.clone(), &keys).await?,
        "{store} has never been used for runs, so it is not the one that was restored"
    );
    let incarnation = Coordinator::raise_generation(opened, &keys).await?;
    if json {
        print_json(&serde_json::json!({ "incarnation": incarnation }))?;
    } else {
        say!("{store} is in its incarnation {incarnation}; all earlier leases are stale");
    }
    Ok(Exit::Done)
}
