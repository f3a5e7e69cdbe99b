use shardwright_placement::{ObjectIdRef, Route};

use crate::arguments::cluster::RouteArguments;
use crate::cluster::{Missing, open};
use crate::commands::print_json;
use crate::console::outln;
use crate::exit::Exit;
use crate::store::StoreAddress;

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &RouteArguments,
) -> anyhow::Result<Exit> {
    if let Some(object) = &arguments.object {
        // Before the store is opened.
        ObjectIdRef::parse(object)?;
    }
    let cluster = open(store, &arguments.cluster, Missing::Fail).await?;
    let table = cluster.view().routing(None, cluster.config());
    let explanation = match (&arguments.object, arguments.shard) {
        (_, Some(shard)) => table.explain_shard(shard)?,
        (object, None) => table.explain(object.as_deref().unwrap_or_default())?,
    };
    if !json {
        outln!("{explanation}");
        return Ok(Exit::Done);
    }
    let route = explanation.route();
    let (word, node) = match route {
        Route::Here { .. } => ("here", None),
        Route::There { node, .. } => ("there", Some(node.as_str())),
        Route::Moving { to, .. } => ("moving", Some(to.as_str())),
        Route::Unclaimed { .. } => ("unclaimed", None),
        Route::NodeGone { node, .. } => ("node gone", Some(node)),
    };
    let shard = route.shard();
    print_json(&serde_json::json!({
        "object": arguments.object, "route": word, "node": node,
        "shard": shard.map(|shard| shard.as_raw()),
        "fence": shard.and_then(|shard| table.fence(shard)).map(|fence| fence.as_raw()),
        "explanation": explanation.to_string(),
    }))?;
    Ok(Exit::Done)
}
