use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shardwright_api::{CallError, UnknownWhy};
use shardwright_contracts::Env;

use super::load::Load;
use super::world::*;
use crate::{Gate, GateOptions, NodeState};

#[tokio::test(start_paused = true)]
async fn a_killed_node_loses_no_acknowledged_call() {
    let world = World::new().await;
    let mut nodes = world.nodes(&["a", "b", "c"]).await;
    let gate = Arc::new(world.gate().await);
    let load = Load::start(&gate);
    world.sleep_ms(500).await;
    let killed = nodes.remove(1);
    world.network.disconnect(&address("b"));
    drop(killed);
    let at = world.env.monotonic();
    world.settle(2).await;
    let took = world.env.monotonic() - at;
    assert!(took < TTL + Duration::from_secs(2), "{took:?}");
    let before = world.rows.sum();
    world.sleep_ms(1_000).await;
    assert!(world.rows.sum() > before, "calls are answered again");
    let tally = load.stop().await;
    let sum = world.rows.sum();
    let range = tally.answered..=tally.answered + tally.unknown;
    assert!(range.contains(&sum), "{sum} {tally:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_lose_its_session_stops_before_others_start() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    let cut = &nodes[1];
    let shard = cut.node.shards()[0];
    let id = world.id_in(shard);
    let before = cut.node.holder().unwrap();
    assert_eq!(cut.node.call(call(&id, "add")).await.unwrap(), "1");
    let running = {
        let service = cut.node.service();
        let timeout = Duration::from_secs(30);
        let call = crate::Call { timeout, ..with_payload(&id, "wait", "20000") };
        tokio::spawn(async move { service.answer(call).await })
    };
    cut.line.cut.store(true, Ordering::Relaxed);
    // Two seconds before the session can end, it stops serving and cancels running calls.
    let broken = running.await.unwrap();
    assert_eq!(broken, Err(CallError::Unknown(UnknownWhy::NotServing)));
    assert_eq!(world.holder_of(shard), address("b"), "no other node has started yet");
    let refused = cut.node.service().answer(call(&id, "add")).await;
    assert_eq!(refused, Err(CallError::NotServing));
    // The other node takes over and continues.
    world.settle(1).await;
    let gate = world.gate().await;
    assert_eq!(gate.call(call(&id, "add")).await.unwrap(), "2");
    // When it can, it joins again as a new instance.
    cut.line.cut.store(false, Ordering::Relaxed);
    world.settle(2).await;
    let mut state = cut.node.state();
    state.wait_for(|state| *state == NodeState::Serving).await.unwrap();
    let after = cut.node.holder().unwrap();
    assert!(after.incarnation > before.incarnation);
    assert_eq!(gate.call(call(&id, "add")).await.unwrap(), "3");
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_session_survived_serves_again() {
    let world = World::new().await;
    let nodes = world.nodes(&["a"]).await;
    let before = nodes[0].node.holder();
    let gate = world.gate().await;
    assert_eq!(gate.call(call("x", "add")).await.unwrap(), "1");
    // A keep-alive is sent every two seconds. Without them serving ends after eight.
    world.sleep_ms(1_900).await;
    nodes[0].line.cut.store(true, Ordering::Relaxed);
    let mut lapsed = false;
    for _ in 0..90 {
        world.sleep_ms(100).await;
        let answer = nodes[0].node.service().answer(call("x", "get")).await;
        if answer == Err(CallError::NotServing) {
            lapsed = true;
            break;
        }
    }
    assert!(lapsed);
    nodes[0].line.cut.store(false, Ordering::Relaxed);
    assert_eq!(gate.call(call("x", "add")).await.unwrap(), "2");
    assert_eq!(nodes[0].node.holder(), before);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_restarts_at_its_address_claims_again() {
    let world = World::new().await;
    let nodes = world.nodes(&["a"]).await;
    let gate = world.gate().await;
    assert_eq!(gate.call(call("x", "add")).await.unwrap(), "1");
    world.network.disconnect(&address("a"));
    drop(nodes);
    // It waits until its earlier session has ended.
    let again = world.node("a").await;
    world.settle(1).await;
    assert_eq!(again.node.shards().len(), 64);
    assert_eq!(gate.call(call("x", "add")).await.unwrap(), "2");
}

#[tokio::test(start_paused = true)]
async fn a_node_and_a_gate_of_a_deleted_cluster_end() {
    for world in [World::new().await, World::of_text().await] {
        let (node, line) = (world.node("a").await, Arc::new(Line::default()));
        let cluster = world.cluster(Arc::clone(&line)).await;
        let transport = Arc::clone(&world.network) as _;
        let gate = Gate::open(cluster, address("gate"), transport, GateOptions::default());
        let gate = gate.await.unwrap();
        world.settle(1).await;
        let cut = |cut| [&node.line, &line].map(|line| line.cut.store(cut, Ordering::Relaxed));
        cut(true);
        world.until(|view| view.members.is_empty() && view.gates.is_empty()).await;
        world.delete().await.unwrap();
        cut(false);
        let mut state = node.node.state();
        let deleted = async {
            state.wait_for(|state| *state == NodeState::Deleted).await.unwrap();
            gate.deleted().await;
        };
        tokio::time::timeout(TTL, deleted).await.unwrap();
        assert_eq!(node.node.drain().await, NodeState::Deleted);
        assert_eq!(world.next_expiry(), None, "no session is left");
    }
}

/// A deletion is refused if a node has joined just before it, and the others go on.
#[tokio::test(start_paused = true)]
async fn a_node_rejoins_after_a_refused_deletion() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    nodes[0].line.cut.store(true, Ordering::Relaxed);
    world.until(|view| view.members.len() == 1).await;
    world.mark_deletion().await;
    nodes[0].line.cut.store(false, Ordering::Relaxed);
    world.sleep_ms(60_000).await;
    assert_eq!(*nodes[0].node.state().borrow(), NodeState::Rejoining);
    let notices = nodes[0].node.notices().borrow().clone();
    let why = notices.after(0).last().map(|notice| notice.why.clone());
    assert_eq!(why.unwrap(), "the cluster is being deleted");
    world.delete().await.unwrap_err();
    world.settle(2).await;
}
