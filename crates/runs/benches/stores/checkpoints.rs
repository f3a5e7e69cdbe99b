//! Checkpoints per second, each caller with its own shard.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use shardwright_contracts::{CursorUpdate, OpId, WorkerId};
use shardwright_coordination::{AsyncCoordinationBackend, AsyncShardClaiming};
use shardwright_store::Revision;
use shardwright_store::testing::EtcdCluster;

use crate::Coordinator;
use crate::meter::{Meter, Rate};
use crate::shards::{RUN, TENANT, register};

const TIME: Duration = Duration::from_secs(2);
/// Value that the baselines write.
const VALUE: Bytes = Bytes::from_static(&[7; 300]);
/// Requests that the store has in flight.
const REQUESTS: usize = 2;
/// A server accepts 128 operations, and one is the enclosing request.
const NESTED_MAX: usize = 127;

pub(crate) async fn measure(
    coordinator: &Coordinator,
    server: Option<u32>,
    callers: usize,
) -> Rate {
    register(coordinator, callers).await;
    let mut leases = Vec::new();
    for worker in 0..callers as u64 {
        let worker = WorkerId::from_raw(worker);
        leases.push(coordinator.claim_next_available(TENANT, RUN, worker).await.unwrap());
    }
    let meter = Meter::start(server);
    let tasks = leases.into_iter().map(|shard| {
        let coordinator = coordinator.clone();
        tokio::spawn(async move {
            let start = shard.spec.as_spec_ref().start().to_vec();
            let mut took = Vec::new();
            for number in 0_u64.. {
                if meter.elapsed() > TIME {
                    break;
                }
                let mut key = start.clone();
                key.extend_from_slice(format!("/{number:012}").as_bytes());
                let (cursor, op) = (CursorUpdate::at(&key), OpId::from_raw(number));
                let before = Instant::now();
                coordinator.checkpoint(TENANT, &shard.lease, cursor, op).await.unwrap();
                took.push(before.elapsed());
            }
            took
        })
    });
    rate(tasks.collect(), meter).await
}

/// Baseline: plain compare-and-swap on etcd.
pub(crate) async fn plain(cluster: &EtcdCluster, callers: usize) -> Rate {
    let operator = Arc::new(cluster.operator(0).await.unwrap());
    let meter = Meter::start(cluster.process_id(0).ok());
    let tasks = (0..callers).map(|caller| {
        let operator = Arc::clone(&operator);
        tokio::spawn(async move {
            let key = Bytes::from(format!("plain/{caller}"));
            let (mut revision, mut took) = (Revision::ZERO, Vec::new());
            while meter.elapsed() < TIME {
                let before = Instant::now();
                let swapped = operator.compare_and_swap(key.clone(), revision, VALUE).await;
                revision = swapped.unwrap().unwrap();
                took.push(before.elapsed());
            }
            took
        })
    });
    rate(tasks.collect(), meter).await
}

/// Upper bound of an etcd for so many callers: bare swaps of one key each, nested in as few
/// requests as possible with one in flight while another is decided.
pub(crate) async fn nested(cluster: &EtcdCluster, callers: usize) -> Rate {
    let operator = Arc::new(cluster.operator(0).await.unwrap());
    let meter = Meter::start(cluster.process_id(0).ok());
    let together = callers.div_ceil(REQUESTS).min(NESTED_MAX);
    let tasks = (0..callers.div_ceil(together).min(REQUESTS)).map(|request| {
        let operator = Arc::clone(&operator);
        tokio::spawn(async move {
            let key = |swap| Bytes::from(format!("nested/{request}/{swap}"));
            let keys: Vec<Bytes> = (0..together).map(key).collect();
            let (mut revision, mut took) = (Revision::ZERO, Vec::new());
            while meter.elapsed() < TIME {
                let swaps = keys.iter().map(|key| (key.clone(), revision, VALUE));
                let before = Instant::now();
                let swapped = operator.compare_and_swap_each(swaps).await.unwrap();
                revision = swapped.first().copied().flatten().unwrap();
                assert!(swapped.len() == together && swapped.iter().all(Option::is_some));
                took.extend(std::iter::repeat_n(before.elapsed(), together));
            }
            took
        })
    });
    rate(tasks.collect(), meter).await
}

async fn rate(tasks: Vec<tokio::task::JoinHandle<Vec<Duration>>>, meter: Meter) -> Rate {
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.unwrap());
    }
    meter.rate(took)
}
