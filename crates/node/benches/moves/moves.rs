//! Planned moves and drains, on a real etcd that forces to the disk what it writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use shardwright_contracts::ShardId;
use shardwright_engine::TokioEnv;
use shardwright_node::{Call, Gate, ObjectKey};
use shardwright_placement::{NodeAddress, ObjectId};
use shardwright_store::etcd::EtcdStore;
use shardwright_store::testing::{EtcdCluster, EtcdSetup};
use tokio::task::JoinSet;

use crate::fence::TYPE;
use crate::{ms, percentile, site};

const SHARDS: u32 = 64;
const MOVES: usize = 200;
/// How often the shard is called while it moves.
const PACE: Duration = Duration::from_millis(1);
/// Shards of the node that is drained.
const DRAINED: usize = 1_000;

async fn etcd() -> EtcdCluster {
    EtcdSetup::members(1).synced().start().await.unwrap()
}

async fn store(etcd: &EtcdCluster) -> EtcdStore {
    EtcdStore::connect(etcd.options()).await.unwrap()
}

/// Who answered a call, by its fence, and when.
type Answer = (u64, Instant);

pub(crate) async fn report_moves() {
    let etcd = etcd().await;
    let nodes = [
        site::node(site::cluster(store(&etcd).await, SHARDS).await).await,
        site::node(site::cluster(store(&etcd).await, SHARDS).await).await,
    ];
    let gate = site::gate(site::cluster(store(&etcd).await, SHARDS).await).await;
    site::ready(gate.cluster(), 2, SHARDS as usize).await;
    let mut gaps = Vec::new();
    for number in 0..MOVES {
        let shard = ShardId::from_raw(number as u64 % u64::from(SHARDS));
        let view = gate.cluster().view();
        let holder = view.map.info(shard).unwrap().current.unwrap().address.clone();
        let to = nodes.iter().find(|node| *node.address() != holder).unwrap();
        gaps.push(gap(&gate, shard, to.address()).await);
    }
    let (half, most) = (percentile(&mut gaps, 50), percentile(&mut gaps, 99));
    println!(
        "\na planned move on etcd, {MOVES} times, while the shard is called every millisecond"
    );
    println!(
        "  no answer for      p50 {:6.1} ms   p99 {:6.1} ms   aim p99 < 100 ms",
        ms(half),
        ms(most)
    );
    println!("  failed calls       0");
}

/// Moves a shard and says how long nobody answered for it: from the last answer of the old holder
/// to the first of the new one. A call that fails ends the bench.
async fn gap(gate: &Gate<EtcdStore, TokioEnv>, shard: ShardId, to: &NodeAddress) -> Duration {
    let object = ObjectId::parse(&format!("shard#{}/gap", shard.as_raw())).unwrap();
    let service = gate.service();
    let call = || {
        let key = ObjectKey::new(TYPE, object.clone());
        let call = Call::new(key, "fence", "", Duration::from_secs(10));
        let service = Arc::clone(&service);
        async move {
            let answer = service.answer(call).await.unwrap();
            let fence: u64 = str::from_utf8(&answer).unwrap().parse().unwrap();
            (fence, Instant::now())
        }
    };
    let (before, _): Answer = call().await;
    let mut calls: JoinSet<Answer> = JoinSet::new();
    let mut ticks = tokio::time::interval(PACE);
    let mut answers = Vec::new();
    gate.cluster().move_shard(shard, to).await.unwrap();
    // The first answer of the new holder ends it; those that are under way by then tell the rest.
    while !answers.iter().any(|(fence, _)| *fence != before) {
        ticks.tick().await;
        calls.spawn(call());
        while let Some(answer) = calls.try_join_next() {
            answers.push(answer.unwrap());
        }
    }
    answers.extend(calls.join_all().await);
    let times = |is_old: bool| {
        let of = answers.iter().filter(move |(fence, _)| (*fence == before) == is_old);
        of.map(|(_, at)| *at)
    };
    let first = times(false).min().unwrap();
    times(true).max().map_or(Duration::ZERO, |last| first.saturating_duration_since(last))
}

pub(crate) async fn report_drain() {
    let etcd = etcd().await;
    let shards = DRAINED * 2;
    let count = u32::try_from(shards).unwrap();
    let first = site::node(site::cluster(store(&etcd).await, count).await).await;
    let _second = site::node(site::cluster(store(&etcd).await, count).await).await;
    site::ready(first.cluster(), 2, shards).await;
    let operator = etcd.operator(0).await.unwrap();
    let before = operator.status().await.unwrap().revision.get();
    let start = Instant::now();
    first.drain().await;
    let took = start.elapsed().as_secs_f64();
    let requests = operator.status().await.unwrap().revision.get() - before;
    println!("\ndraining a node with {DRAINED} shards on etcd");
    println!("  handed over in     {took:6.2} s, {:5.0} shards/s", DRAINED as f64 / took);
    println!(
        "  requests           {requests:6} that wrote something, {:.2} per shard",
        requests as f64 / DRAINED as f64
    );
}
