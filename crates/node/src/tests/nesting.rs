use std::sync::Arc;
use std::time::Duration;

use shardwright_api::CallError;
use shardwright_contracts::{Env, ShardId};

use super::world::*;
use crate::NodeState;

#[tokio::test(start_paused = true)]
async fn calls_nest_across_nodes() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    let gate = world.gate().await;
    let at = |node: usize| world.id_in(nodes[node].node.shards()[0]);
    let through = with_payload(&at(0), "through", format!("0 {} c d e", at(1)));
    assert_eq!(gate.call(through).await.unwrap(), "end");
}

#[tokio::test(start_paused = true)]
async fn a_chain_through_a_shard_does_not_block_its_move() {
    come_back(World::new().await).await;
}

#[tokio::test(start_paused = true)]
async fn a_chain_does_not_block_a_move_in_the_text_format() {
    come_back(World::of_text().await).await;
}

async fn come_back(world: World) {
    let nodes = world.nodes(&["a", "b"]).await;
    world.watcher.set_frozen(true).await.unwrap();
    let gate = Arc::new(world.gate().await);
    let (moving, other) = (nodes[0].node.shards()[0], nodes[1].node.shards()[0]);
    let elsewhere = world.id_in(other);
    let (first, back) = (world.id_in(moving), format!("shard#{}/back", moving.as_raw()));
    // From the first node to the second and back, while the first hands the shard over.
    let through = with_payload(&first, "through", format!("200 {elsewhere} {back}"));
    let calls = Arc::clone(&gate);
    let chain = tokio::spawn(async move { calls.call(through).await });
    world.sleep_ms(50).await;
    world.watcher.move_shard(moving, &address("b")).await.unwrap();
    world.sleep_ms(50).await;
    let at = world.env.monotonic();
    let held = gate.call(call(&first, "get")).await;
    assert_eq!(held.unwrap(), "0");
    assert!(world.env.monotonic() > at, "the call was held while the shard drained");
    assert_eq!(chain.await.unwrap().unwrap(), "end");
    assert_eq!(world.holder_of(moving), address("b"));
}

#[tokio::test(start_paused = true)]
async fn a_cycle_over_two_nodes_fails_at_once() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    let gate = world.gate().await;
    let at = |node: usize| world.id_in(nodes[node].node.shards()[0]);
    let cycle = with_payload(&at(0), "through", format!("0 {} {}", at(1), at(0)));
    let began = world.env.monotonic();
    let Err(CallError::Refused(why)) = gate.call(cycle).await else {
        panic!("the cycle was answered")
    };
    assert!(why.ends_with("the call would wait for itself"), "{why}");
    assert!(world.env.monotonic() - began < Duration::from_secs(1));
}

/// Two calls go through two shards in opposite directions while both shards are handed over.
async fn cross(world: World, nodes: Vec<Process>, shards: [ShardId; 2], to: [&str; 2]) {
    world.watcher.set_frozen(true).await.unwrap();
    let gate = Arc::new(world.gate().await);
    let [one, other] = shards.map(ShardId::as_raw);
    let calls = [(one, other), (other, one)].map(|(from, through)| {
        let through = format!("200 shard#{through}/end");
        let call = with_payload(&format!("shard#{from}/begin"), "through", through);
        let gate = Arc::clone(&gate);
        tokio::spawn(async move { gate.call(call).await })
    });
    world.sleep_ms(50).await;
    for (shard, to) in shards.into_iter().zip(to) {
        world.watcher.move_shard(shard, &address(to)).await.unwrap();
    }
    let began = world.env.monotonic();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "end");
    }
    assert!(world.env.monotonic() - began < Duration::from_millis(500));
    world.ready().await;
    drop(nodes);
}

#[tokio::test(start_paused = true)]
async fn crossing_calls_on_a_draining_node_do_not_deadlock() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    let shards = [nodes[0].node.shards()[0], nodes[0].node.shards()[1]];
    cross(world, nodes, shards, ["b", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn crossing_calls_between_swapped_shards_do_not_deadlock() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    let shards = [nodes[0].node.shards()[0], nodes[1].node.shards()[0]];
    cross(world, nodes, shards, ["b", "a"]).await;
}

#[tokio::test(start_paused = true)]
async fn crossing_calls_between_leaving_nodes_do_not_deadlock() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    let gate = Arc::new(world.gate().await);
    let at = |node: usize| nodes[node].node.shards()[0].as_raw();
    let (one, other) = (at(0), at(1));
    let calls = [(one, other), (other, one)].map(|(from, through)| {
        let through = format!("200 shard#{through}/end");
        let call = with_payload(&format!("shard#{from}/begin"), "through", through);
        let gate = Arc::clone(&gate);
        tokio::spawn(async move { gate.call(call).await })
    });
    world.sleep_ms(50).await;
    // No node is left to take a shard, so no shard has another target.
    let began = world.env.monotonic();
    tokio::join!(nodes[0].node.drain(), nodes[1].node.drain());
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "end");
    }
    assert!(world.env.monotonic() - began < Duration::from_millis(500));
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_leaving_node_call_each_other() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    let gate = Arc::new(world.gate().await);
    let calls = ["a/y", "b/y a/z"].map(|next| {
        let gate = Arc::clone(&gate);
        let from = format!("a/from-{}", next.len());
        let call = with_payload(&from, "through", format!("1000 {next}"));
        tokio::spawn(async move { gate.call(call).await })
    });
    world.sleep_ms(50).await;
    assert_eq!(nodes[0].node.drain().await, NodeState::Left);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "end");
    }
}
