use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::limits::{HeldLimits, Share};
use shardwright_api::{CallError, Limit, LimitOption, UnknownWhy};
use shardwright_contracts::Env;
use shardwright_placement::NodeAddress;

use super::world::*;
use crate::{BoxFuture, Call, GateOptions, ShardLoad, Transport};

/// A transport that interferes with calls, and records their targets.
struct FaultyTransport<F> {
    through: Arc<dyn Transport>,
    dialled: Mutex<Vec<NodeAddress>>,
    sent: AtomicU64,
    interfere: F,
}

/// What happens to the n-th call.
enum Interference {
    Nothing,
    /// It does not arrive.
    NotSent,
    /// It arrives, and the answer is lost.
    AnswerLost,
}

impl<F: Fn(u64) -> Interference + Send + Sync + 'static> FaultyTransport<F> {
    fn new(world: &World, interfere: F) -> Arc<Self> {
        let through = Arc::clone(&world.network) as _;
        Arc::new(Self { through, dialled: Mutex::default(), sent: AtomicU64::new(0), interfere })
    }
}

impl<F: Fn(u64) -> Interference + Send + Sync + 'static> Transport for FaultyTransport<F> {
    fn call<'a>(&'a self, node: &'a NodeAddress, call: Call) -> BoxFuture<'a, Answer> {
        self.dialled.lock().unwrap().push(node.clone());
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            match (self.interfere)(number) {
                Interference::Nothing => self.through.call(node, call).await,
                Interference::NotSent => {
                    let reason = "the test interferes".to_owned();
                    Err(CallError::Unreachable { node: node.to_string(), reason })
                }
                Interference::AnswerLost => {
                    let _lost = self.through.call(node, call).await;
                    Err(CallError::Unknown(UnknownWhy::Lost))
                }
            }
        })
    }

    fn loads<'a>(
        &'a self,
        node: &'a NodeAddress,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Vec<ShardLoad>, CallError>> {
        self.through.loads(node, timeout)
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_outcome_is_unknown_is_made_once() {
    let world = World::new().await;
    let _nodes = world.nodes(&["a"]).await;
    let interferer = FaultyTransport::new(&world, |_| Interference::AnswerLost);
    let gate = world.gate_with(GateOptions::default(), interferer.clone()).await;
    let lost = gate.call(call("x", "add")).await;
    assert_eq!(lost, Err(CallError::Unknown(UnknownWhy::Lost)));
    assert_eq!(interferer.sent.load(Ordering::Relaxed), 1);
    assert_eq!(world.rows.sum(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_did_not_arrive_is_retried_within_its_timeout() {
    let world = World::new().await;
    let _nodes = world.nodes(&["a"]).await;
    let interferer = FaultyTransport::new(&world, |number| match number {
        0..3 => Interference::NotSent,
        _ => Interference::Nothing,
    });
    let gate = world.gate_with(GateOptions::default(), interferer.clone()).await;
    assert_eq!(gate.call(call("x", "add")).await.unwrap(), "1");
    assert_eq!(interferer.sent.load(Ordering::Relaxed), 4);
    let never = FaultyTransport::new(&world, |_| Interference::NotSent);
    let gate = {
        let cluster = world.cluster(Arc::default()).await;
        crate::Gate::open(cluster, address("gate-2"), never, GateOptions::default()).await.unwrap()
    };
    let refused = gate.call(call("x", "add")).await;
    assert!(matches!(refused, Err(CallError::Unreachable { .. })), "{refused:?}");
    assert_eq!(gate.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn calls_are_held_until_the_shard_is_claimed() {
    let world = World::new().await;
    let gate = world.gate().await;
    let mut held = std::pin::pin!(gate.call(call("x", "add")));
    assert!(futures_util::poll!(held.as_mut()).is_pending());
    assert_eq!(gate.held(), 1);
    let began = world.env.monotonic();
    let _node = world.node("a").await;
    assert_eq!(held.await.unwrap(), "1");
    assert!(
        world.env.monotonic() - began < Duration::from_millis(500),
        "the router follows changes"
    );
    assert_eq!(gate.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_calls_held_by_a_gate_is_limited() {
    let world = World::new().await;
    let calls = Share { all: 2, peer: 2 };
    let options = GateOptions { held: HeldLimits { calls, ..HeldLimits::GATE } };
    let gate = Arc::new(world.gate_with(options, Arc::clone(&world.network) as _).await);
    let calls = ["x", "y", "z"].map(|id| {
        let gate = Arc::clone(&gate);
        tokio::spawn(async move { gate.call(call(id, "add")).await })
    });
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    let unclaimed = |id| {
        let shard = world.config.sharding.hashed(id);
        Err(CallError::Unclaimed { shard, retry_after_ms: 60_000 })
    };
    let limit = Limit { option: LimitOption::HeldCalls, value: 2 };
    let full = Err(CallError::QueueFull(limit));
    assert_eq!(answers, [unclaimed("x"), unclaimed("y"), full]);
}

#[tokio::test(start_paused = true)]
async fn a_strict_cluster_fails_a_call_without_an_owner() {
    let world = World::with(|config| config.strict = true).await;
    let gate = world.gate().await;
    let shard = world.config.sharding.hashed("x");
    let began = world.env.monotonic();
    let refused = gate.call(call("x", "add")).await;
    let unclaimed = CallError::Unclaimed { shard, retry_after_ms: 60_000 };
    assert_eq!(refused, Err(unclaimed));
    let nodes = world.nodes(&["a", "b"]).await;
    assert_eq!(gate.call(call("x", "add")).await.unwrap(), "1");
    // So does a call to a moving shard.
    let holder = world.holder_of(shard);
    let to = if holder == address("a") { "b" } else { "a" };
    let running = {
        let wait = with_payload("x", "wait", "1000");
        let service = nodes.iter().find(|one| *one.node.address() == holder).unwrap();
        let service = service.node.service();
        tokio::spawn(async move { service.answer(wait).await })
    };
    world.sleep_ms(10).await;
    world.watcher.move_shard(shard, &address(to)).await.unwrap();
    world.sleep_ms(10).await;
    let refused = gate.call(call("x", "add")).await;
    assert!(matches!(refused, Err(CallError::NotOwner { .. })), "{refused:?}");
    assert!(running.await.unwrap().is_ok());
    assert!(world.env.monotonic() > began);
}

#[tokio::test(start_paused = true)]
async fn only_members_are_called() {
    let world = World::new().await;
    let _nodes = world.nodes(&["a", "b"]).await;
    let interferer = FaultyTransport::new(&world, |_| Interference::Nothing);
    let gate = world.gate_with(GateOptions::default(), interferer.clone()).await;
    for id in ["evil:1/x", "127.0.0.1:22/x", "gate/x"] {
        let refused = gate.call(call(id, "add")).await;
        assert!(matches!(refused, Err(CallError::NodeGone { shard: None, .. })), "{refused:?}");
    }
    for id in 0..100 {
        gate.call(call(&format!("counter-{id}"), "add")).await.unwrap();
    }
    let members = [address("a"), address("b")];
    let dialled = interferer.dialled.lock().unwrap().clone();
    assert!(dialled.len() == 100 && dialled.iter().all(|node| members.contains(node)));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_names_an_absent_node_fails_at_once() {
    let world = World::new().await;
    let _nodes = world.nodes(&["a"]).await;
    // A held call would need a place in the queue.
    let network = Arc::clone(&world.network) as _;
    let calls = Share { all: 0, peer: 0 };
    let options = GateOptions { held: HeldLimits { calls, ..HeldLimits::GATE } };
    let gate = world.gate_with(options, network).await;
    let began = world.env.monotonic();
    let refused = gate.call(call("user/12345", "add")).await.unwrap_err();
    let node = "user".to_owned();
    assert_eq!(refused, CallError::NodeGone { shard: None, node, retry_after_ms: 60_000 });
    assert!(refused.to_string().contains("before a slash names a node"), "{refused}");
    assert_eq!(world.env.monotonic(), began);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_id_or_shard_is_refused_at_once() {
    let world = World::new().await;
    let gate = world.gate().await;
    let refused = gate.call(call("shard#64/x", "add")).await;
    let why = "there is no shard 64, the cluster has 64".to_owned();
    assert_eq!(refused, Err(CallError::InvalidId(why)));
    let large = with_payload("x", "add", Bytes::from(vec![0; (4 << 20) + 1]));
    assert!(matches!(gate.call(large).await, Err(CallError::TooLarge { .. })));
}
