//! The memory of a node does not grow with the number of ids. A separate binary, because the
//! counter is its allocator.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may use the real world"
)]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use shardwright_cluster::{Cluster, ClusterName, ClusterOptions};
use shardwright_engine::TokioEnv;
use shardwright_node::{
    Activation, Call, CallContext, HostOptions, LocalNetwork, Node, NodeOptions, ObjectError,
    ObjectKey, ObjectType, ObjectTypes,
};
use shardwright_placement::{ClusterConfig, NodeAddress, ObjectId, ShardCount};
use shardwright_store::MachineClock;
use shardwright_store::memory::MemoryStore;
use tokio::runtime::{Builder, Runtime};

/// The most objects that the node may have.
const OBJECTS_MAX: u64 = 1_000;
/// Ids before the measurement. By then the node has as many objects as it may have.
const BEFORE: u64 = 3 * OBJECTS_MAX;
/// Ids during the measurement, unless the variable gives another number.
const DURING: u64 = 20_000;
const VARIABLE: &str = "SHARDWRIGHT_OBJECTS";
/// What an object takes, and by how much the memory of all may differ.
const OBJECT_BYTES: usize = 1 << 10;
const TOLERANCE_BYTES: i64 = 256 << 10;

/// Objects that take memory, and their number.
#[derive(Clone, Default)]
struct Heavy(Arc<AtomicU64>);

struct Weight {
    _bytes: Vec<u8>,
    living: Arc<AtomicU64>,
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.living.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ObjectType for Heavy {
    type Object = Weight;

    async fn activate(&self, _activation: &Activation) -> Result<Weight, ObjectError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Weight { _bytes: vec![1; OBJECT_BYTES], living: Arc::clone(&self.0) })
    }

    async fn handle(
        &self,
        _weight: &mut Weight,
        _context: &CallContext,
        _method: &str,
        payload: Bytes,
    ) -> Result<Bytes, ObjectError> {
        Ok(payload)
    }
}

async fn start(heavy: &Heavy) -> Node {
    let env = TokioEnv::current().unwrap();
    let mut config = ClusterConfig::with_num_shards(ShardCount::try_new(64).unwrap());
    config.cluster_state_stability_duration_ms = 0;
    let options = ClusterOptions::new(ClusterName::parse("memory").unwrap(), config);
    let store = MemoryStore::new(Arc::new(MachineClock));
    let cluster = Cluster::open(store, env.clone(), options).await.unwrap();
    let (network, address) = (Arc::new(LocalNetwork::new(env)), NodeAddress::parse("a").unwrap());
    let types = ObjectTypes::new().with("Heavy", heavy.clone());
    let host = HostOptions { objects_max: OBJECTS_MAX, ..HostOptions::default() };
    let options = NodeOptions { host, ..NodeOptions::default() };
    Node::start(cluster, address, types, network, options).await.unwrap()
}

/// Calls every object of a range once.
fn call_all(runtime: &Runtime, node: &Node, heavy: &Heavy, ids: Range<u64>) {
    runtime.block_on(async {
        for number in ids {
            let id = ObjectId::parse(&format!("user-{number:09}")).unwrap();
            let key = ObjectKey::new("Heavy", id);
            let call = Call::new(key, "echo", "x", Duration::from_secs(30));
            assert_eq!(node.call(call).await.unwrap(), "x");
            let living = heavy.0.load(Ordering::Relaxed);
            assert!(living <= OBJECTS_MAX + 1, "{living} objects after id {number}");
        }
    });
}

#[test]
fn distinct_ids_do_not_grow_the_memory_of_a_node() {
    let during = std::env::var(VARIABLE).map_or(DURING, |number| number.parse().unwrap());
    // One thread, because allocations are counted per thread.
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let heavy = Heavy::default();
    let node = runtime.block_on(start(&heavy));
    call_all(&runtime, &node, &heavy, 0..BEFORE);
    let measured = allocation_counter::measure(|| {
        call_all(&runtime, &node, &heavy, BEFORE..BEFORE + during);
    });
    assert_eq!(heavy.0.load(Ordering::Relaxed), OBJECTS_MAX);
    let grown = measured.bytes_current;
    assert!(grown.abs() < TOLERANCE_BYTES, "{grown} bytes more after {during} ids");
    let most = measured.bytes_max;
    assert!(most < TOLERANCE_BYTES.unsigned_abs(), "{most} bytes more at once");
}
