//! Stores that refuse commits, and lost answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shardwright_contracts::Env;

use super::world::*;
use crate::{Activity, Call, NodeOptions, NodeState};

fn options(drain_timeout: Duration) -> NodeOptions {
    NodeOptions { drain_timeout, ..NodeOptions::default() }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_shard_whose_release_is_refused_is_served_by_its_holder() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    world.watcher.set_frozen(true).await.unwrap();
    let Process { node, line } = &nodes[0];
    let shard = node.shards()[0];
    let id = world.id_in(shard);
    let gate = world.gate().await;
    line.full.store(true, Ordering::Relaxed);
    world.watcher.move_shard(shard, &address("b")).await.unwrap();
    let mut slowest = Duration::ZERO;
    for number in 1..=600 {
        let began = world.env.monotonic();
        assert_eq!(gate.call(call(&id, "add")).await.unwrap(), number.to_string());
        slowest = slowest.max(world.env.monotonic() - began);
        world.sleep_ms(100).await;
    }
    assert!(slowest < Duration::from_millis(300), "{slowest:?}");
    assert_eq!(world.holder_of(shard), address("a"));
    // The release is retried six times until the pauses reach their maximum.
    let notices = node.notices().borrow().clone();
    let tries: u64 =
        notices.after(0).filter(|one| one.activity == Activity::Release).map(|one| one.times).sum();
    assert!((6..=20).contains(&tries), "{tries}");
    // When the store accepts commits again, the shard moves.
    line.full.store(false, Ordering::Relaxed);
    let began = world.env.monotonic();
    world.until(|view| view.readiness().is_ready()).await;
    assert!(world.env.monotonic() - began < 6 * SECOND);
    assert_eq!(world.holder_of(shard), address("b"));
    assert_eq!(gate.call(call(&id, "add")).await.unwrap(), "601");
    assert!(!world.rows.was_twice());
}

#[tokio::test(start_paused = true)]
async fn a_shard_with_an_unknown_release_is_not_served() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    world.watcher.set_frozen(true).await.unwrap();
    let Process { node, line } = &nodes[0];
    let shard = node.shards()[0];
    let id = world.id_in(shard);
    line.sticky.store(true, Ordering::Relaxed);
    world.watcher.move_shard(shard, &address("b")).await.unwrap();
    // All attempts of one release have ended.
    let mut notices = node.notices();
    let noticed =
        notices.wait_for(|notices| notices.after(0).any(|one| one.activity == Activity::Release));
    drop(noticed.await.unwrap());
    line.full.store(true, Ordering::Relaxed);
    let held = {
        let (service, add) = (node.service(), call(&id, "add"));
        tokio::spawn(async move { service.answer(add).await })
    };
    world.sleep_ms(1_500).await;
    assert!(!held.is_finished(), "{:?}", held.await);
    // One of the commits in flight arrives, and the other node claims the shard.
    assert_eq!(world.deliver(line).await, 1);
    world.until(|view| view.readiness().is_ready()).await;
    assert_eq!(world.holder_of(shard), address("b"));
    assert!(held.await.unwrap().is_err());
    assert_eq!(nodes[1].node.call(call(&id, "add")).await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_releases_are_refused_leaves_at_its_timeout() {
    let world = World::new().await;
    let network = Arc::clone(&world.network) as _;
    let leaving = world.node_with("a", options(5 * SECOND), network).await;
    let staying = world.node("b").await;
    world.settle(2).await;
    let id = world.id_in(leaving.node.shards()[0]);
    let gate = world.gate().await;
    leaving.line.full.store(true, Ordering::Relaxed);
    let began = world.env.monotonic();
    let mut drained = std::pin::pin!(leaving.node.drain());
    assert!(futures_util::poll!(drained.as_mut()).is_pending());
    for number in 1..=40 {
        assert_eq!(gate.call(call(&id, "add")).await.unwrap(), number.to_string());
        world.sleep_ms(100).await;
    }
    assert_eq!(drained.await, NodeState::Gone);
    let took = world.env.monotonic() - began;
    assert!(took >= 5 * SECOND && took < 6 * SECOND, "{took:?}");
    world.settle(1).await;
    assert_eq!(staying.node.shards().len(), 64);
    assert_eq!(gate.call(call(&id, "add")).await.unwrap(), "41");
}

#[tokio::test(start_paused = true)]
async fn the_last_node_waits_for_a_store_that_refuses_releases() {
    let world = World::new().await;
    let network = Arc::clone(&world.network) as _;
    let only = world.node_with("a", options(5 * SECOND), network).await;
    world.settle(1).await;
    only.line.full.store(true, Ordering::Relaxed);
    let began = world.env.monotonic();
    let mut drained = std::pin::pin!(only.node.drain());
    assert!(futures_util::poll!(drained.as_mut()).is_pending());
    world.sleep_ms(2_000).await;
    assert_eq!(*only.node.state().borrow(), NodeState::Draining);
    only.line.full.store(false, Ordering::Relaxed);
    assert_eq!(drained.await, NodeState::Left);
    assert!(world.env.monotonic() - began < 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn releases_are_retried_while_a_node_waits_for_a_call() {
    let world = World::new().await;
    let network = Arc::clone(&world.network) as _;
    let Process { node, line } = world.node_with("a", options(2 * SECOND), network).await;
    world.settle(1).await;
    let running = {
        let (service, id) = (node.service(), world.id_in(node.shards()[0]));
        let wait = Call { timeout: 60 * SECOND, ..with_payload(&id, "wait", "20000") };
        tokio::spawn(async move { service.answer(wait).await })
    };
    world.sleep_ms(10).await;
    line.full.store(true, Ordering::Relaxed);
    let mut drained = std::pin::pin!(node.drain());
    assert!(futures_util::poll!(drained.as_mut()).is_pending());
    // Its timeout is over by then, and its releases have failed.
    world.sleep_ms(5_000).await;
    line.full.store(false, Ordering::Relaxed);
    world.sleep_ms(1_000).await;
    assert_eq!(node.shards().len(), 1, "the store accepts commits again");
    assert!(!running.is_finished());
    assert_eq!(drained.await, NodeState::Left);
    assert!(running.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_session_ends_while_it_drains_reports_gone() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    let Process { node, line } = &nodes[0];
    line.cut.store(true, Ordering::Relaxed);
    assert_eq!(node.drain().await, NodeState::Gone);
    assert_eq!(*node.state().borrow(), NodeState::Gone);
    world.settle(1).await;
    assert_eq!(nodes[1].node.shards().len(), 64);
}

#[tokio::test(start_paused = true)]
async fn a_release_with_a_lost_answer_does_not_delay_others() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    let Process { node, line } = &nodes[0];
    let stuck = node.shards()[7];
    line.stick(stuck);
    let mut drained = std::pin::pin!(node.drain());
    assert!(futures_util::poll!(drained.as_mut()).is_pending());
    while line.stuck() == 0 {
        world.sleep_ms(1).await;
    }
    world.sleep_ms(1).await;
    assert_eq!(node.shards(), [stuck]);
    assert_eq!(nodes[1].node.shards().len(), 63);
    *line.sticky_key.lock().unwrap() = None;
    assert_eq!(drained.await, NodeState::Left);
    world.settle(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_with_a_lost_answer_does_not_delay_others() {
    let world = World::new().await;
    let nodes = world.nodes(&["a", "b"]).await;
    let Process { node, line } = &nodes[1];
    let stuck = nodes[0].node.shards()[7];
    line.stick(stuck);
    let mut drained = std::pin::pin!(nodes[0].node.drain());
    assert!(futures_util::poll!(drained.as_mut()).is_pending());
    while line.stuck() == 0 {
        world.sleep_ms(1).await;
    }
    world.sleep_ms(1).await;
    assert_eq!(node.shards().len(), 63);
    assert!(!node.shards().contains(&stuck));
    *line.sticky_key.lock().unwrap() = None;
    assert_eq!(drained.await, NodeState::Left);
    world.settle(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_pin_in_the_text_format_fails_no_call() {
    let world = World::of_text_with(|config| config.strict = true).await;
    let nodes = world.nodes(&["a", "b"]).await;
    world.watcher.set_frozen(true).await.unwrap();
    // It sees its own pins before the nodes do.
    let gate = {
        let network = Arc::clone(&world.network) as _;
        let options = crate::GateOptions::default();
        crate::Gate::open(world.watcher.clone(), address("gate"), network, options).await.unwrap()
    };
    let shard = nodes[0].node.shards()[0];
    let id = world.id_in(shard);
    for number in 1..=50 {
        if number % 2 == 1 {
            world.watcher.pin(shard, None).await.unwrap();
        } else {
            world.watcher.unpin(shard).await.unwrap();
        }
        assert_eq!(gate.call(call(&id, "add")).await.unwrap(), number.to_string());
    }
    assert_eq!(world.holder_of(shard), address("a"));
}
