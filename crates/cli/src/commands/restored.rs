use crate::commands::print_json;
use crate::console::outln;
use crate::exit::Exit;
use crate::store::{Coordinator, OpenMode, OpenStore as _, StoreAddress};

pub(crate) async fn run(store: &StoreAddress, json: bool) -> anyhow::Result<Exit> {
    anyhow::ensure!(
        *store != StoreAddress::Memory,
        "a memory: store cannot be restored; name the restored store with --store URL"
    );
    let (opened, keys) = store.connect_for(OpenMode::Read, "runs", None).await?;
    anyhow::ensure!(
        Coordinator::is_set_up(opened.clone(), &keys).await?,
        "{store} has never stored a run; name the restored store with --store URL"
    );
    let incarnation = Coordinator::raise_generation(opened, &keys).await?;
    if json {
        print_json(&serde_json::json!({ "incarnation": incarnation }))?;
    } else {
        outln!("invalidated all leases in {store}; its generation is now {incarnation}");
    }
    Ok(Exit::Done)
}
