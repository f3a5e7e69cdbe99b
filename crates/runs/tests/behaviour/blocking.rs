//! The sync traits over a stored coordinator, with its own runtime.

use std::time::Duration;

use shardwright_contracts::{CursorUpdate, LogicalTime};
use shardwright_coordination::conformance::Harness;
use shardwright_coordination::{
    AcquireScratch, ClaimError, Clock, CoordinationBackend, RunManagement, ShardClaiming,
    ShardFilter, StateTransitionEvent, Synchronized, conformance_suite,
};
use shardwright_runs::{Blocking, BlockingError, EngineConfig, FileCoordinator, LeaseBinding};
use shardwright_store::MachineClock;
use shardwright_store::memory::MemoryStore;
use tempfile::TempDir;

use crate::site::{Manifest, RUN, TENANT, op, run_config, worker};
use crate::support::{self, EventLog, InMemory, ManualClock, Tenants, block_on};

const NOW: LogicalTime = LogicalTime::ZERO;

fn in_folder(folder: &TempDir) -> Blocking<FileCoordinator> {
    Blocking::open(FileCoordinator::in_folder(folder.path())).unwrap()
}

/// Starts a run and completes all its shards.
fn work(backend: &mut Blocking<FileCoordinator>) {
    let (manifest, mut scratch) = (Manifest::of(3), AcquireScratch::new());
    let (inputs, config) = (manifest.inputs(), run_config());
    backend.create_run_with_shards(NOW, TENANT, RUN, config, &inputs, op(1)).unwrap();
    for id in 2..5 {
        let claimed = backend.claim_next_available(NOW, TENANT, RUN, worker(1), &mut scratch);
        let lease = claimed.unwrap().lease;
        backend.renew(NOW, TENANT, &lease).unwrap();
        let cursor = CursorUpdate::initial();
        backend.complete(NOW, TENANT, &lease, cursor, op(id)).unwrap();
    }
    let nothing = backend.claim_next_available(NOW, TENANT, RUN, worker(1), &mut scratch);
    assert!(matches!(nothing, Err(ClaimError::NoneAvailable(_))));
    backend.complete_run(NOW, TENANT, RUN, op(9)).unwrap();
    let mut listed = Vec::new();
    backend.list_shards_into(NOW, TENANT, RUN, ShardFilter::all(), &mut listed).unwrap();
    assert_eq!(listed.len(), 3);
}

#[test]
fn run_is_processed_without_an_outer_runtime() {
    let folder = TempDir::new().unwrap();
    work(&mut in_folder(&folder));
    // Another coordinator finds the stored run.
    let mut again = in_folder(&folder);
    assert_eq!(again.get_run(TENANT, RUN).unwrap().root_shards.len(), 3);
}

#[test]
fn blocking_backend_works_within_other_runtimes() {
    for builder in
        [tokio::runtime::Builder::new_current_thread(), tokio::runtime::Builder::new_multi_thread()]
    {
        let mut builder = builder;
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = TempDir::new().unwrap();
            let mut backend = in_folder(&folder);
            // More awaits than the outer runtime's cooperative budget allows in a row.
            work(&mut backend);
            for _ in 0..300 {
                backend.get_run(TENANT, RUN).unwrap();
            }
        });
        let in_a_task = runtime.spawn(async {
            let folder = TempDir::new().unwrap();
            work(&mut in_folder(&folder));
        });
        runtime.block_on(in_a_task).unwrap();
    }
}

#[test]
fn sessions_are_kept_alive_between_calls() {
    let clock = ManualClock::default();
    clock.advance(1_000);
    let store = MemoryStore::new(std::sync::Arc::new(MachineClock));
    let sessions = LeaseBinding::Session { ttl: Duration::from_millis(600) };
    let config = EngineConfig { sessions, ..support::exact() };
    let opening = async { Ok::<_, BlockingError<()>>(support::over(store, &clock, config).await) };
    let mut backend = Blocking::open(opening).unwrap();
    let (manifest, mut scratch) = (Manifest::of(1), AcquireScratch::new());
    let (inputs, config) = (manifest.inputs(), run_config());
    backend.create_run_with_shards(NOW, TENANT, RUN, config, &inputs, op(1)).unwrap();
    let claimed = backend.claim_next_available(NOW, TENANT, RUN, worker(1), &mut scratch);
    let lease = claimed.unwrap().lease;
    // Far longer than the session's TTL.
    std::thread::sleep(Duration::from_millis(2_000));
    backend.renew(NOW, TENANT, &lease).unwrap();
}

#[test]
fn failed_open_of_a_backend_is_reported() {
    let refused = Blocking::<FileCoordinator>::open(async { Err::<FileCoordinator, _>("no") });
    assert!(matches!(refused, Err(BlockingError::Backend("no"))));
}

/// The conformance suite through both adapters.
struct BackAndForth {
    backend: Synchronized<Blocking<InMemory>, ManualClock>,
    events: EventLog,
    clock: ManualClock,
    tenants: Tenants,
}

impl BackAndForth {
    fn new() -> Self {
        let clock = ManualClock::default();
        clock.advance(1_000);
        let mut events = None;
        let opening = async {
            let coordinator = support::in_memory(&clock, support::for_suite()).await;
            events = Some(EventLog::of(&coordinator));
            Ok::<_, BlockingError<()>>(coordinator)
        };
        let backend = Synchronized::new(Blocking::open(opening).unwrap(), clock.clone());
        Self { backend, events: events.unwrap(), clock, tenants: Tenants::default() }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> LogicalTime {
        LogicalTime::from_millis(self.millis())
    }
}

impl Harness for BackAndForth {
    type Backend = Synchronized<Blocking<InMemory>, ManualClock>;

    fn backend(&self) -> &Self::Backend {
        &self.backend
    }

    fn fresh_tenant(&self) -> shardwright_contracts::TenantId {
        self.tenants.fresh()
    }

    async fn advance(&self, millis: u64) {
        self.clock.advance(millis);
    }

    async fn take_events(
        &self,
        tenant: shardwright_contracts::TenantId,
    ) -> Vec<StateTransitionEvent> {
        self.events.take(tenant)
    }
}

mod suite {
    use super::{BackAndForth, block_on, conformance_suite};

    conformance_suite!(BackAndForth::new(), block_on);
}

mod on_etcd {
    use shardwright_coordination::{AsyncRunManagement, RunManagement};
    use shardwright_runs::{AsyncEtcdCoordinator, EngineConfig, EtcdCoordinator};
    use shardwright_store::testing::EtcdCluster;

    use super::{NOW, block_on};
    use crate::site::{RUN, TENANT, run_config};

    #[test]
    fn sync_and_async_coordinators_share_data() {
        let cluster = block_on(EtcdCluster::single()).unwrap();
        let config = EngineConfig::default();
        let mut sync = EtcdCoordinator::on_etcd(cluster.options(), config).unwrap();
        sync.create_run(NOW, TENANT, RUN, run_config()).unwrap();
        let found = block_on(async {
            let coordinator = AsyncEtcdCoordinator::on_etcd(cluster.options(), config).await;
            coordinator.unwrap().get_run(TENANT, RUN).await
        });
        assert_eq!(found.unwrap(), sync.get_run(TENANT, RUN).unwrap());
    }
}
