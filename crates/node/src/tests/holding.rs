use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::{CallError, UnknownWhy};
use shardwright_contracts::Env;
use shardwright_placement::NodeAddress;

use super::world::*;
use crate::{BoxFuture, Call, GateOptions, ShardLoad, Transport};

/// A transport that does something of its own to calls, and remembers whom it was to reach.
struct Meddler<F> {
    through: Arc<dyn Transport>,
    dialled: Mutex<Vec<NodeAddress>>,
    sent: AtomicU64,
    meddle: F,
}

/// What is done to the n-th call.
enum Meddling {
    Nothing,
    /// It does not get there.
    NotSent,
    /// It gets there, and the answer does not come back.
    AnswerLost,
}

impl<F: Fn(u64) -> Meddling + Send + Sync + 'static> Meddler<F> {
    fn new(world: &World, meddle: F) -> Arc<Self> {
        let through = Arc::clone(&world.network) as _;
        Arc::new(Self { through, dialled: Mutex::default(), sent: AtomicU64::new(0), meddle })
    }
}

impl<F: Fn(u64) -> Meddling + Send + Sync + 'static> Transport for Meddler<F> {
    fn call<'a>(&'a self, node: &'a NodeAddress, call: Call) -> BoxFuture<'a, Answer> {
        self.dialled.lock().unwrap().push(node.clone());
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            match (self.meddle)(number) {
                Meddling::Nothing => self.through.call(node, call).await,
                Meddling::NotSent => {
                    let reason = "the test interferes".to_owned();
                    Err(CallError::Unreachable { node: node.to_string(), reason })
                }
                Meddling::AnswerLost => {
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
    let meddler = Meddler::new(&world, |_| Meddling::AnswerLost);
    let gate = world.gate_with(GateOptions::default(), meddler.clone()).await;
    let lost = gate.call(call("x", "add")).await;
    assert_eq!(lost, Err(CallError::Unknown(UnknownWhy::Lost)));
    assert_eq!(meddler.sent.load(Ordering::Relaxed), 1);
    assert_eq!(world.rows.sum(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_did_not_get_there_is_made_again_within_its_time() {
    let world = World::new().await;
    let _nodes = world.nodes(&["a"]).await;
    let meddler = Meddler::new(&world, |number| match number {
        0..3 => Meddling::NotSent,
        _ => Meddling::Nothing,
    });
    let gate = world.gate_with(GateOptions::default(), meddler.clone()).await;
    assert_eq!(gate.call(call("x", "add")).await.unwrap(), "1");
    assert_eq!(meddler.sent.load(Ordering::Relaxed), 4);
    let never = Meddler::new(&world, |_| Meddling::NotSent);
    let gate = {
        let cluster = world.cluster(Arc::default()).await;
        crate::Gate::open(cluster, address("gate-2"), never, GateOptions::default()).await.unwrap()
    };
    let refused = gate.call(call("x", "add")).await;
    assert!(matches!(refused, Err(CallError::Unreachable { .. })), "{refused:?}");
    assert_eq!(gate.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn calls_are_held_until_somebody_has_the_shard() {
    let world = World::new().await;
    let gate = world.gate().await;
    let mut held = std::pin::pin!(gate.call(call("x", "add")));
    assert!(futures_util::poll!(held.as_mut()).is_pending());
    assert_eq!(gate.held(), 1);
    let began = world.env.monotonic();
    let _node = world.node("a").await;
    assert_eq!(held.await.unwrap(), "1");
    assert!(world.env.monotonic() - began < Duration::from_millis(500), "the watch said so");
    assert_eq!(gate.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_gate_holds_so_many_calls_and_no_more() {
    let world = World::new().await;
    let options = GateOptions { queue_max: 2 };
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
    let full = Err(CallError::QueueFull { limit: 2 });
    assert_eq!(answers, [unclaimed("x"), unclaimed("y"), full]);
}

#[tokio::test(start_paused = true)]
async fn where_the_cluster_is_strict_a_call_without_an_owner_fails_at_once() {
    let world = World::with(|config| config.strict = true).await;
    let gate = world.gate().await;
    let shard = world.config.sharding.hashed("x");
    let began = world.env.monotonic();
    let refused = gate.call(call("x", "add")).await;
    let unclaimed = CallError::Unclaimed { shard, retry_after_ms: 60_000 };
    assert_eq!(refused, Err(unclaimed));
    let nodes = world.nodes(&["a", "b"]).await;
    assert_eq!(gate.call(call("x", "add")).await.unwrap(), "1");
    // And so does one that meets a shard on its way.
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
async fn only_members_are_ever_dialled() {
    let world = World::new().await;
    let _nodes = world.nodes(&["a", "b"]).await;
    let meddler = Meddler::new(&world, |_| Meddling::Nothing);
    let gate = world.gate_with(GateOptions::default(), meddler.clone()).await;
    for id in ["evil:1/x", "127.0.0.1:22/x", "gate/x"] {
        let refused = gate.call(call(id, "add")).await;
        assert!(matches!(refused, Err(CallError::NodeGone { .. })), "{refused:?}");
    }
    for id in 0..100 {
        gate.call(call(&format!("counter-{id}"), "add")).await.unwrap();
    }
    let members = [address("a"), address("b")];
    let dialled = meddler.dialled.lock().unwrap().clone();
    assert!(dialled.len() == 100 && dialled.iter().all(|node| members.contains(node)));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_id_or_names_no_shard_is_refused_at_once() {
    let world = World::new().await;
    let gate = world.gate().await;
    let refused = gate.call(call("shard#64/x", "add")).await;
    let why = "there is no shard 64, the cluster has 64".to_owned();
    assert_eq!(refused, Err(CallError::InvalidId(why)));
    let large = with_payload("x", "add", Bytes::from(vec![0; (4 << 20) + 1]));
    assert!(matches!(gate.call(large).await, Err(CallError::TooLarge { .. })));
}
