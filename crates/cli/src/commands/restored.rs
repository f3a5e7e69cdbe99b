use crate::commands::print_json;
use crate::exit::Exit;
use crate::say::say;
use crate::store::{Coordinator, Purpose, StoreAddress};

pub(crate) async fn run(store: &StoreAddress, json: bool) -> anyhow::Result<Exit> {
    anyhow::ensure!(*store != StoreAddress::Memory, "a store in memory cannot be restored");
    let (opened, keys) = store.connect(Purpose::Look, "runs", None).await?;
    let incarnation = Coordinator::raise_incarnation(&opened, &keys).await?;
    if json {
        print_json(&serde_json::json!({ "incarnation": incarnation }))?;
    } else {
        say!("{store} is in its incarnation {incarnation}; all leases from before are stale");
    }
    Ok(Exit::Done)
}
