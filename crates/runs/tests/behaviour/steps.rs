//! An infrastructure error names the operation and the step that failed.

use shardwright_contracts::{CursorUpdate, RunId, ShardSpecRef, SplitPart};
use shardwright_coordination::operation::*;
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, Backend, CoordError, InfraError, Lease,
    ParkReason, RunName, ShardFilter, WorkEstimate,
};

use crate::flaky::Reaction;
use crate::site::{
    Engine, Manifest, RUN, Site, TENANT, acquire, op, run_config, shard, start, worker,
};

const WAITING: RunId = RunId::from_raw(2);
const NEW: RunId = RunId::from_raw(3);

/// A request, the name of its read, and the name of its commit unless it stores nothing.
type Case<'a> = (Request<&'a [u8]>, String, Option<String>);

fn changes<'a>(request: impl Into<Request<&'a [u8]>>, name: &str) -> Case<'a> {
    (request.into(), format!("{name}.load"), Some(format!("{name}.commit")))
}

fn reads<'a>(request: impl Into<Request<&'a [u8]>>, name: &str) -> Case<'a> {
    (request.into(), format!("{name}.load"), None)
}

/// Every request, with the names of its steps. Queries store nothing. A claim reads the view of the
/// run and then acquires.
fn requests<'a>(lease: Lease, manifest: &'a Manifest) -> Vec<Case<'a>> {
    let (run, op, worker, config) = (RUN, op(1), worker(2), run_config());
    let (cursor, key) = (CursorUpdate::at(b"0000001"), shard(1));
    let part = |from: &'static [u8], to: &'static [u8]| ShardSpecRef::new(from, to, b"meta");
    let (left, right) = (part(b"000000", b"0000005"), part(b"0000005", b"000001"));
    let split = |spec| SplitPart { spec, cursor: CursorUpdate::initial() };
    let (parts, shards) = (vec![split(left), split(right)], manifest.inputs());
    let name = RunName::new("nightly").unwrap();
    let reason = ParkReason::Other;
    let change = |change| ChangeRun { run, change, op };
    let filter = ShardFilter::all();
    vec![
        changes(Acquire { key, worker }, "acquire"),
        changes(Renew { lease }, "renew"),
        changes(Checkpoint { lease, op, cursor }, "checkpoint"),
        changes(Complete { lease, op, cursor }, "complete"),
        changes(ParkShard { lease, reason, op, detail: &b""[..] }, "park"),
        changes(Release { lease, op }, "release"),
        changes(SplitReplace { lease, op, parts }, "split_replace"),
        changes(SplitResidual { lease, op, narrowed: left, residual: right }, "split_residual"),
        changes(RequestSplit { key: shard(0), requester: worker, patience_ms: 9 }, "request_split"),
        changes(DeclineSplit { lease, pause_ms: 9 }, "decline_split"),
        changes(CreateRun { run: NEW, config }, "create_run"),
        changes(RegisterShards { run: WAITING, op, shards: shards.clone() }, "register_shards"),
        changes(CreateRunWithShards { run: NEW, config, op, shards }, "create_run_with_shards"),
        reads(GetRun { run }, "get_run"),
        reads(GetRunProgress { run }, "get_run_progress"),
        reads(ListShards { run, filter }, "list_shards"),
        reads(change(RunTransition::Complete), "complete_run"),
        changes(change(RunTransition::Fail), "fail_run"),
        changes(change(RunTransition::Cancel), "cancel_run"),
        changes(change(RunTransition::Pause), "pause_run"),
        changes(change(RunTransition::Resume), "resume_run"),
        changes(UnparkShard { key: shard(2), op }, "unpark"),
        reads(CollectClaimCandidates { run, worker, limit: 4 }, "view"),
        (Claim { run, worker }.into(), "view.load".into(), Some("acquire.commit".into())),
        reads(FindRun { name }, "find_run"),
        changes(NameRun { run: NEW, name, instead_of: None, description: &b""[..] }, "name_run"),
        reads(LabelOf { run }, "label_of"),
        reads(ListLabels {}, "list_labels"),
        changes(PublishEstimate { lease, estimate: WorkEstimate::default() }, "publish_estimate"),
        reads(ListEstimates { run }, "list_estimates"),
    ]
}

/// Three shards, the first held and the third parked, and a run without shards.
async fn begin(engine: &Engine) -> Lease {
    start(engine, 3).await;
    engine.create_run(TENANT, WAITING, run_config()).await.unwrap();
    let parked = acquire(engine, 2, 1).await;
    engine.park_shard(TENANT, &parked, ParkReason::Other, b"", op(90)).await.unwrap();
    acquire(engine, 0, 1).await
}

/// The step that a request fails at, on a coordinator without caches.
fn failed_step(index: usize, reads_fail: bool) -> Option<&'static str> {
    let site = Site::new();
    let lease = site.run(begin(&site.engine()));
    let (engine, store) = site.flaky_engine();
    // Stores the clock's mark.
    site.run(engine.get_run_progress(TENANT, RUN)).unwrap();
    store.refuse_reads(reads_fail);
    store.always_after(0, Reaction::Refuse);
    let manifest = Manifest::of(2);
    let (request, ..) = requests(lease, &manifest).swap_remove(index);
    let error = site.run(engine.call(TENANT, request)).err()?;
    match error {
        CoordError::BackendError(
            InfraError::NotApplied { operation, .. }
            | InfraError::Unknown { operation, .. }
            | InfraError::Corrupt { operation, .. },
        ) => Some(operation),
        _ => None,
    }
}

#[test]
fn infrastructure_error_names_the_operation_and_its_step() {
    let site = Site::new();
    let (lease, manifest) = (site.run(begin(&site.engine())), Manifest::of(2));
    let requests = requests(lease, &manifest);
    for name in Request::<&[u8]>::NAMES {
        assert!(requests.iter().any(|(request, ..)| request.name() == *name), "{name}");
    }
    for (index, (request, load, commit)) in requests.iter().enumerate() {
        assert_eq!(failed_step(index, true), Some(load.as_str()), "{request:?}, reads fail");
        assert_eq!(failed_step(index, false), commit.as_deref(), "{request:?}, commits fail");
    }
}
