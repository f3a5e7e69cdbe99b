use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use shardwright_api::CallError;
use shardwright_contracts::{Env, ShardId};
use shardwright_placement::PinPolicy;

use super::load::{Load, assert_nothing_failed};
use super::world::*;
use crate::{NodeOptions, NodeState};

#[tokio::test(start_paused = true)]
async fn a_joining_node_gets_its_share_and_no_call_fails() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    let gate = Arc::new(world.gate().await);
    let load = Load::start(&gate);
    world.sleep_ms(500).await;
    let third = world.node("c").await;
    world.settle(3).await;
    world.sleep_ms(500).await;
    assert_nothing_failed(&world, load.stop().await);
    let served = nodes.iter().chain([&third]).flat_map(|process| process.node.shards());
    assert_eq!(served.collect::<BTreeSet<_>>().len(), 64);
    assert!((21..=22).contains(&third.node.shards().len()));
}

#[tokio::test(start_paused = true)]
async fn a_draining_node_hands_everything_over_and_no_call_fails() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b", "c"]).await;
    let gate = Arc::new(world.gate().await);
    let load = Load::start(&gate);
    world.sleep_ms(500).await;
    // The first node leads. Callers do not notice that it leaves.
    let leader = world.watcher.view().live_leader().unwrap().address.clone();
    let leaving = nodes.iter().find(|process| *process.node.address() == leader).unwrap();
    leaving.node.drain().await;
    assert_eq!(*leaving.node.state().borrow(), NodeState::Left);
    assert!(leaving.node.shards().is_empty());
    world.settle(2).await;
    world.sleep_ms(500).await;
    assert_nothing_failed(&world, load.stop().await);
}

#[tokio::test(start_paused = true)]
async fn nodes_join_and_leave_and_no_call_fails() {
    join_and_leave(World::new().await).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_join_and_leave_in_the_text_format() {
    join_and_leave(World::of_text().await).await;
}

async fn join_and_leave(world: World) {
    let first = world.nodes(&["a"]).await;
    let gate = Arc::new(world.gate().await);
    let load = Load::start(&gate);
    let second = world.node("b").await;
    world.settle(2).await;
    first[0].node.drain().await;
    world.settle(1).await;
    let third = world.node("a").await;
    world.settle(2).await;
    second.node.drain().await;
    world.settle(1).await;
    assert_eq!(third.node.shards().len(), 64);
    assert_nothing_failed(&world, load.stop().await);
    // Each activation of a counter has a higher fence.
    let activations = world.rows.activations();
    assert!(activations.values().any(|fences| fences.len() >= 3));
    for (id, fences) in activations {
        assert!(fences.is_sorted_by(|one, next| one < next), "{id}: {fences:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_moves_a_shard_and_no_call_fails() {
    let world = World::new().await;
    let _nodes = world.nodes(&["a", "b"]).await;
    world.watcher.set_frozen(true).await.unwrap();
    let gate = Arc::new(world.gate().await);
    let load = Load::start(&gate);
    for shard in (0..64).map(ShardId::from_raw) {
        let to = if world.holder_of(shard) == address("a") { "b" } else { "a" };
        world.watcher.move_shard(shard, &address(to)).await.unwrap();
        world.sleep_ms(20).await;
    }
    world.ready().await;
    assert_nothing_failed(&world, load.stop().await);
}

#[tokio::test(start_paused = true)]
async fn the_last_node_releases_its_shards() {
    let world = World::new().await;
    let nodes = world.nodes(&["a"]).await;
    nodes[0].node.drain().await;
    world.until(|view| view.members.is_empty()).await;
    let view = world.watcher.view();
    assert!(view.map.iter().all(|info| info.current.is_none() && info.fence.is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_draining_node_waits_a_limited_time_for_pinned_shards() {
    let world = World::with(|config| config.pin_policy = PinPolicy::Wait).await;
    let nodes = world.nodes(&["a", "b"]).await;
    let pinned = nodes[0].node.shards()[0];
    world.watcher.pin(pinned, None).await.unwrap();
    let began = world.env.monotonic();
    nodes[0].node.drain().await;
    let took = world.env.monotonic() - began;
    let timeout = NodeOptions::default().drain_timeout;
    assert!(took >= timeout, "{took:?}");
    world.until(|view| view.members.len() == 1).await;
    assert_eq!(nodes[1].node.shards().len(), 63);
    // It has no holder until its node has restarted.
    let view = world.watcher.view();
    let info = view.map.info(pinned).unwrap();
    assert_eq!((info.current, info.target), (None, Some(&address("a"))));
    let again = world.node("a").await;
    world.ready().await;
    assert!(again.node.shards().contains(&pinned));
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_stays_is_served_again() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    world.watcher.set_frozen(true).await.unwrap();
    let shard = nodes[0].node.shards()[0];
    let id = world.id_in(shard);
    let gate = Arc::new(world.gate().await);
    let running = {
        let (gate, wait) = (Arc::clone(&gate), with_payload(&id, "wait", "500"));
        tokio::spawn(async move { gate.call(wait).await })
    };
    world.sleep_ms(50).await;
    world.watcher.move_shard(shard, &address("b")).await.unwrap();
    world.sleep_ms(50).await;
    let held = {
        let (gate, add) = (Arc::clone(&gate), call(&format!("shard#{}/x", shard.as_raw()), "add"));
        tokio::spawn(async move { gate.call(add).await })
    };
    world.sleep_ms(50).await;
    assert!(!held.is_finished(), "the shard drains");
    world.watcher.move_shard(shard, &address("a")).await.unwrap();
    assert_eq!(held.await.unwrap().unwrap(), "1");
    assert!(!running.is_finished(), "the running call need not end");
    assert!(running.await.unwrap().is_ok());
    assert_eq!(world.holder_of(shard), address("a"));
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_stays_is_not_lost_to_a_late_release() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    world.watcher.set_frozen(true).await.unwrap();
    let Process { node, line } = &nodes[0];
    let shard = node.shards()[0];
    let id = world.id_in(shard);
    assert_eq!(node.call(call(&id, "add")).await.unwrap(), "1");
    line.sticky.store(true, Ordering::Relaxed);
    world.watcher.move_shard(shard, &address("b")).await.unwrap();
    while line.stuck() == 0 {
        world.sleep_ms(1).await;
    }
    world.watcher.move_shard(shard, &address("a")).await.unwrap();
    // While the release may still be applied, no call is served.
    world.sleep_ms(500).await;
    let held = {
        let (service, add) = (node.service(), call(&id, "add"));
        tokio::spawn(async move { service.answer(add).await })
    };
    world.sleep_ms(500).await;
    assert!(!held.is_finished(), "{:?}", held.await);
    line.sticky.store(false, Ordering::Relaxed);
    assert_eq!(held.await.unwrap().unwrap(), "2");
    assert_eq!(world.deliver(line).await, 0, "all of it arrives too late");
    assert_eq!(world.holder_of(shard), address("a"));
    assert_eq!(node.call(call(&id, "add")).await.unwrap(), "3");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_node_lives_only_there() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    let gate = world.gate().await;
    assert_eq!(gate.call(call("b/status", "add")).await.unwrap(), "1");
    assert_eq!(nodes[0].node.call(call("b/status", "add")).await.unwrap(), "2");
    let host = nodes[1].node.host().unwrap();
    assert!(nodes[1].node.shards().iter().all(|shard| host.objects(*shard) == Ok(0)));
    nodes[1].node.drain().await;
    let gone = gate.call(call("b/status", "add")).await;
    assert!(matches!(gone, Err(CallError::NodeGone { .. })), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_node_hands_over_shards_if_load_is_balanced() {
    let world = World::with(|config| {
        config.shard_mapping_check_interval_ms = 2_000;
        config.rebalance_shards_batch_size = Some(8);
    })
    .await;
    let network = || Arc::clone(&world.network) as _;
    let options = || NodeOptions { balance_load: true, ..NodeOptions::default() };
    let busy = world.node_with("a", options(), network()).await;
    let idle = world.node_with("b", options(), network()).await;
    world.settle(2).await;
    let (first, second) = (busy.node.shards()[0], busy.node.shards()[1]);
    let gate = Arc::new(world.gate().await);
    // Two shards of one node do all the work.
    let clients = [first, second].map(|shard| {
        let (gate, id) = (Arc::clone(&gate), world.id_in(shard));
        tokio::spawn(async move {
            loop {
                gate.call(call(&id, "add")).await.unwrap();
            }
        })
    });
    world
        .until(|view| {
            let holder = |shard| view.map.info(shard).unwrap().current.unwrap().address.clone();
            let (one, other) = (holder(first), holder(second));
            view.readiness().is_ready() && one != other
        })
        .await;
    clients.iter().for_each(|client| client.abort());
    assert_eq!(busy.node.shards().len() + idle.node.shards().len(), 64);
}
