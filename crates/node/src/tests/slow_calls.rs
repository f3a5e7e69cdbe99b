//! Long calls in shards that are to move.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shardwright_api::limits::{HeldLimits, Share};
use shardwright_contracts::{Env, ShardId};
use shardwright_placement::HandoverTimeouts;
use tokio::task::JoinHandle;

use super::world::*;
use crate::{Call, Gate, NodeOptions, NodeState};

type SharedGate = Arc<Gate>;

/// No call is held for longer than this at a time.
const HELD_MAX: Duration = Duration::from_millis(1_100);

/// A call to an object of a shard that takes this long.
fn begin_slow(gate: &SharedGate, shard: ShardId, millis: u64) -> JoinHandle<Answer> {
    let slow = with_payload(&format!("shard#{}/slow", shard.as_raw()), "wait", millis.to_string());
    let slow = Call { timeout: Duration::from_millis(millis + 5_000), ..slow };
    let gate = Arc::clone(gate);
    tokio::spawn(async move { gate.call(slow).await })
}

/// Calls other objects of the shard in sequence until `over`. Returns the longest time of a call.
/// None may fail.
async fn call_others(
    world: &World,
    gate: &SharedGate,
    shard: ShardId,
    over: &AtomicBool,
) -> Duration {
    let mut slowest = Duration::ZERO;
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        number += 1;
        let began = world.env.monotonic();
        let id = format!("shard#{}/other-{}", shard.as_raw(), number % 7);
        gate.call(call(&id, "add")).await.unwrap();
        slowest = slowest.max(world.env.monotonic() - began);
        world.sleep_ms(5).await;
    }
    slowest
}

#[tokio::test(start_paused = true)]
async fn a_long_call_fails_no_other_while_its_shard_moves() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    world.watcher.set_frozen(true).await.unwrap();
    let gate = Arc::new(world.gate().await);
    let shard = nodes[0].node.shards()[0];
    let slow = begin_slow(&gate, shard, 10_000);
    world.sleep_ms(50).await;
    world.watcher.move_shard(shard, &address("b")).await.unwrap();
    let over = AtomicBool::new(false);
    let until_moved = async {
        world.until(|view| view.readiness().is_ready()).await;
        over.store(true, Ordering::Relaxed);
        world.env.monotonic()
    };
    let began = world.env.monotonic();
    let (moved_at, slowest) = tokio::join!(until_moved, call_others(&world, &gate, shard, &over));
    assert!(slowest < HELD_MAX, "{slowest:?}");
    assert!(slow.await.unwrap().is_ok());
    // The shard moved at the next attempt after the call had ended.
    let took = moved_at - began;
    assert!(took > Duration::from_secs(9) && took < Duration::from_secs(16), "{took:?}");
    assert_eq!(world.holder_of(shard), address("b"));
}

/// Clients with overlapping calls of this length to a shard, until `over`. None may fail.
async fn keep_busy(
    world: &World,
    gate: &SharedGate,
    shard: ShardId,
    (millis, timeout): (u64, Duration),
    over: &Arc<AtomicBool>,
) -> Vec<JoinHandle<()>> {
    let mut clients = Vec::new();
    for client in 0..3 {
        let (gate, over) = (Arc::clone(gate), Arc::clone(over));
        let id = format!("shard#{}/busy-{client}", shard.as_raw());
        clients.push(tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let wait = with_payload(&id, "wait", millis.to_string());
                gate.call(Call { timeout, ..wait }).await.unwrap();
            }
        }));
        world.sleep_ms(millis / 3).await;
    }
    clients
}

const TWO_SECONDS: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(30);

/// The time that a shard takes to move while calls of this many milliseconds run all the time.
async fn time_to_move(millis: u64, timeout: Duration) -> Duration {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    world.watcher.set_frozen(true).await.unwrap();
    let gate = Arc::new(world.gate().await);
    let shard = nodes[0].node.shards()[0];
    let over = Arc::new(AtomicBool::new(false));
    let clients = keep_busy(&world, &gate, shard, (millis, timeout), &over).await;
    let began = world.env.monotonic();
    world.watcher.move_shard(shard, &address("b")).await.unwrap();
    world.until(|view| view.readiness().is_ready()).await;
    let took = world.env.monotonic() - began;
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    took
}

#[tokio::test(start_paused = true)]
async fn a_shard_with_constant_short_calls_moves_soon() {
    let took = time_to_move(900, TWO_SECONDS).await;
    assert!(took < Duration::from_secs(6), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shard_with_constant_long_calls_moves_eventually() {
    let took = time_to_move(3_000, LONG).await;
    let force = Duration::from_millis(HandoverTimeouts::default().force_ms);
    assert!(took >= force && took < force + Duration::from_secs(4), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leaving_node_has_shorter_handover_timeouts() {
    let world = World::new().await;
    let (leaving, _staying) = (world.node("a").await, world.node("b").await);
    world.settle(2).await;
    let gate = Arc::new(world.gate().await);
    let shard = leaving.node.shards()[0];
    let over = Arc::new(AtomicBool::new(false));
    let clients = keep_busy(&world, &gate, shard, (3_000, LONG), &over).await;
    let began = world.env.monotonic();
    assert_eq!(leaving.node.drain().await, NodeState::Left);
    let took = world.env.monotonic() - began;
    let force = Duration::from_millis(HandoverTimeouts::default().force_leaving_ms);
    assert!(took >= force && took < force + Duration::from_secs(4), "{took:?}");
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_leaving_node_waits_for_a_slow_call_after_its_timeout() {
    let world = World::new().await;
    let second = Duration::from_secs(1);
    let options = NodeOptions { drain_timeout: 5 * second, ..NodeOptions::default() };
    let leaving = world.node_with("a", options, Arc::clone(&world.network) as _).await;
    let _staying = world.node("b").await;
    world.settle(2).await;
    let gate = Arc::new(world.gate().await);
    let shard = leaving.node.shards()[0];
    let slow = begin_slow(&gate, shard, 10_000);
    world.sleep_ms(50).await;
    let over = AtomicBool::new(false);
    let began = world.env.monotonic();
    let draining = async {
        world.sleep_ms(4_500).await;
        over.store(true, Ordering::Relaxed);
    };
    let calls = async { tokio::join!(draining, call_others(&world, &gate, shard, &over)).1 };
    let (ended, slowest) = tokio::join!(leaving.node.drain(), calls);
    assert_eq!(ended, NodeState::Left);
    assert!(slowest < HELD_MAX, "{slowest:?}");
    // By now a call would be held beyond its timeout. No caller waits longer than that.
    let took = world.env.monotonic() - began;
    assert!(took > 9 * second && took < 11 * second, "{took:?}");
    assert!(slow.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_gate_holds_the_calls_that_a_node_cannot_hold() {
    let world = World::new().await;
    let few = HeldLimits { calls: Share { all: 9, peer: 9 }, ..HeldLimits::NODE };
    let options = || NodeOptions { held: few, ..NodeOptions::default() };
    let node = async |name| world.node_with(name, options(), world.network.clone() as _).await;
    let nodes = [node("a").await, node("b").await];
    world.settle(2).await;
    world.watcher.set_frozen(true).await.unwrap();
    let gate = Arc::new(world.gate().await);
    let shard = nodes[0].node.shards()[0];
    let slow = begin_slow(&gate, shard, 190);
    world.sleep_ms(10).await;
    world.watcher.move_shard(shard, &address("b")).await.unwrap();
    world.sleep_ms(10).await;
    let calls: Vec<_> = (0..100)
        .map(|number| {
            let id = format!("shard#{}/{number}", shard.as_raw());
            let (gate, call) = (Arc::clone(&gate), call(&id, "add"));
            tokio::spawn(async move { gate.call(call).await })
        })
        .collect();
    world.sleep_ms(10).await;
    assert!(calls.iter().all(|call| !call.is_finished()), "all are held");
    assert_eq!((nodes[0].node.held(), gate.held()), (9, 91));
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "1");
    }
    assert!(slow.await.unwrap().is_ok());
    assert_eq!(world.holder_of(shard), address("b"));
}

#[tokio::test(start_paused = true)]
async fn thousands_of_held_calls_are_served_after_a_move() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    world.watcher.set_frozen(true).await.unwrap();
    let gate = Arc::new(world.gate().await);
    let shard = nodes[0].node.shards()[0];
    let slow = begin_slow(&gate, shard, 190);
    world.sleep_ms(10).await;
    world.watcher.move_shard(shard, &address("b")).await.unwrap();
    world.sleep_ms(10).await;
    let hot = format!("shard#{}/hot", shard.as_raw());
    let calls: Vec<_> = (0..2_000)
        .map(|_| {
            let (gate, call) = (Arc::clone(&gate), call(&hot, "get"));
            tokio::spawn(async move { gate.call(call).await })
        })
        .collect();
    world.sleep_ms(10).await;
    assert!(calls.iter().all(|call| !call.is_finished()), "all are held");
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "0");
    }
    assert!(slow.await.unwrap().is_ok());
    assert_eq!(world.holder_of(shard), address("b"));
}
