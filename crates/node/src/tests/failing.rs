//! Failures, and the notices of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shardwright_api::CallError;
use shardwright_api::limits::MAX_TIMEOUT;
use shardwright_contracts::Env;
use shardwright_placement::NodeAddress;

use super::world::*;
use crate::{
    Activity, BoxFuture, Call, Gate, GateOptions, NodeOptions, NodeState, ShardLoad, Transport,
    Unready,
};

/// A network that panics when loads are requested.
struct Trap(Arc<dyn Transport>);

impl Transport for Trap {
    fn call<'a>(&'a self, node: &'a NodeAddress, call: Call) -> BoxFuture<'a, Answer> {
        self.0.call(node, call)
    }

    fn loads<'a>(
        &'a self,
        _node: &'a NodeAddress,
        _timeout: Duration,
    ) -> BoxFuture<'a, Result<Vec<ShardLoad>, CallError>> {
        panic!("as requested")
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_own_code_panics_stops_and_is_replaced() {
    let world = World::new().await;
    let options = NodeOptions { balance_load: true, ..NodeOptions::default() };
    let trap = Arc::new(Trap(Arc::clone(&world.network) as _));
    let failing = world.node_with("a", options, trap).await;
    world.settle(1).await;
    let host = failing.node.host().unwrap();
    // It requests no loads until there is another node.
    let other = world.node("b").await;
    let mut state = failing.node.state();
    state.wait_for(|state| *state == NodeState::Failed).await.unwrap();
    let refused = failing.node.service().answer(call("x", "add")).await;
    assert_eq!(refused, Err(CallError::NotServing));
    // Not even through a reference to its host.
    assert_eq!(host.serve(call("x", "add")).await, Err(CallError::NotServing));
    assert_eq!(failing.node.drain().await, NodeState::Failed);
    world.settle(1).await;
    assert_eq!(other.node.shards().len(), 64);
}

#[tokio::test(start_paused = true)]
async fn no_timeout_is_too_long() {
    let world = World::new().await;
    let options = NodeOptions { drain_timeout: Duration::MAX, ..NodeOptions::default() };
    let node = world.node_with("a", options, Arc::clone(&world.network) as _).await;
    world.settle(1).await;
    let gate = world.gate().await;
    let add = Call { timeout: Duration::MAX, ..call("x", "add") };
    assert_eq!(gate.call(add.clone()).await.unwrap(), "1");
    assert_eq!(node.node.drain().await, NodeState::Left);
    // Nor does a call without a limit wait for ever.
    let began = world.env.monotonic();
    let refused = gate.call(add).await;
    assert!(matches!(refused, Err(CallError::Unclaimed { .. })), "{refused:?}");
    assert_eq!(world.env.monotonic() - began, MAX_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_node_joins_again_before_its_old_objects_are_deactivated() {
    let world = World::new().await;
    let nodes = world.nodes(&["a"]).await;
    let gate = world.gate().await;
    for id in 0..100 {
        gate.call(call(&format!("counter-{id}"), "add")).await.unwrap();
    }
    world.rows.clings.store(true, Ordering::Relaxed);
    nodes[0].line.cut.store(true, Ordering::Relaxed);
    world.until(|view| view.members.is_empty()).await;
    nodes[0].line.cut.store(false, Ordering::Relaxed);
    let mut state = nodes[0].node.state();
    state.wait_for(|state| *state == NodeState::Rejoining).await.unwrap();
    let began = world.env.monotonic();
    state.wait_for(|state| *state == NodeState::Serving).await.unwrap();
    let took = world.env.monotonic() - began;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(gate.call(call("counter-7", "add")).await.unwrap(), "2");
}

#[tokio::test(start_paused = true)]
async fn failing_joins_are_in_the_notices() {
    let world = World::new().await;
    let nodes = world.nodes(&["a"]).await;
    let (node, line) = (&nodes[0].node, &nodes[0].line);
    line.cut.store(true, Ordering::Relaxed);
    world.until(|view| view.members.is_empty()).await;
    line.cut.store(false, Ordering::Relaxed);
    let mut state = node.state();
    state.wait_for(|state| *state == NodeState::Rejoining).await.unwrap();
    line.cut.store(true, Ordering::Relaxed);
    let mut notices = node.notices();
    let noticed =
        notices.wait_for(|notices| notices.after(0).any(|one| one.activity == Activity::Join));
    let noticed = noticed.await.unwrap().clone();
    let why = &noticed.after(0).find(|one| one.activity == Activity::Join).unwrap().why;
    assert!(why.contains("the line is cut"), "{why}");
    line.cut.store(false, Ordering::Relaxed);
    state.wait_for(|state| *state == NodeState::Serving).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn objects_dropped_in_a_move_are_in_the_notices() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    world.watcher.set_frozen(true).await.unwrap();
    let gate = world.gate().await;
    let shard = nodes[0].node.shards()[0];
    for number in 0..3 {
        let id = format!("shard#{}/{number}", shard.as_raw());
        gate.call(call(&id, "add")).await.unwrap();
    }
    world.rows.clings.store(true, Ordering::Relaxed);
    world.watcher.move_shard(shard, &address("b")).await.unwrap();
    world.until(|view| view.readiness().is_ready()).await;
    let notices = nodes[0].node.notices().borrow().clone();
    let noticed: Vec<_> = notices.after(0).map(|one| (one.activity, one.why.as_str())).collect();
    let why = format!("3 objects of shard {shard} were dropped before they were deactivated");
    assert_eq!(noticed, [(Activity::Deactivate, why.as_str())]);
}

#[tokio::test(start_paused = true)]
async fn readiness_needs_the_store_and_the_session() {
    let world = World::new().await;
    let node = world.node("a").await;
    world.settle(1).await;
    let line = Arc::<Line>::default();
    let (cluster, network) = (world.cluster(Arc::clone(&line)).await, Arc::clone(&world.network));
    let gate = Gate::open(cluster, address("g"), network, GateOptions::default()).await.unwrap();
    for (service, line) in [(node.node.service(), &node.line), (gate.service(), &line)] {
        assert_eq!(service.ready().await, Ok(()));
        line.cut.store(true, Ordering::Relaxed);
        assert_eq!(service.ready().await, Ok(()), "a read counts for a second");
        world.sleep_ms(1_100).await;
        assert_eq!(service.ready().await, Err(Unready::Store));
        world.env.sleep(TTL).await;
        assert_eq!(service.ready().await, Err(Unready::Session));
        line.cut.store(false, Ordering::Relaxed);
        world.env.sleep(3 * TTL).await;
        assert_eq!(service.ready().await, Ok(()));
    }
}
