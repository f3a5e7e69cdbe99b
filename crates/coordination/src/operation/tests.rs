use std::collections::BTreeSet;
use std::fmt::{Debug, Display};

use shardwright_contracts::{
    CursorInput, FenceEpoch, LogicalTime, ShardId, ShardInput, SpecInput, SplitPart, TenantId,
    WorkerId,
};

use super::*;
use crate::directory::{NameRunError, RunLabel, RunName};
use crate::error::samples::{self, Samples};
use crate::error::{
    AcquireError, CheckpointError, ClaimError, CompleteError, CreateRunError,
    CreateRunWithShardsError, DeclineError, ParkError, RegisterShardsError, ReleaseError,
    RenewError, RunQueryError, RunTransitionError, SplitError, SplitRequestError, UnparkError,
};
use crate::op_log::IdempotentOutcome;
use crate::record::RunConfig;
use crate::restore::{CapacityHint, RenewResult};
use crate::status::ParkReason;
use crate::summary::ShardFilter;
use crate::traits::ClaimHint;

const RUN: RunId = RunId::from_raw(7);
const OP: OpId = OpId::from_raw(11);
const WORKER: WorkerId = WorkerId::from_raw(5);

fn lease() -> Lease {
    let tenant = TenantId::from_bytes([1; 32]);
    Lease::new(tenant, key(), WORKER, FenceEpoch::INITIAL, LogicalTime::from_millis(9))
}

fn key() -> ShardKey {
    ShardKey::new(RUN, ShardId::from_raw(3))
}

/// One request of each operation, in the order of the table.
fn requests() -> Vec<Request<Vec<u8>>> {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let spec = SpecInput::new(bytes("secret-a"), bytes("secret-z"), bytes("secret-m"));
    let cursor = CursorInput::new(Some(bytes("secret-k")), Some(bytes("secret-t")));
    let part = SplitPart { spec: spec.clone(), cursor: cursor.clone() };
    let shard = ShardInput { shard: key().shard, spec: spec.clone(), cursor: cursor.clone() };
    let config = RunConfig::try_new(Default::default(), 100, None).unwrap();
    let (lease, name) = (lease(), RunName::new("nightly").unwrap());
    let (filter, estimate) = (ShardFilter::all(), crate::WorkEstimate::default());
    vec![
        Acquire { key: key(), worker: WORKER }.into(),
        Renew { lease }.into(),
        Checkpoint { lease, cursor: cursor.clone(), op: OP }.into(),
        Complete { lease, cursor, op: OP }.into(),
        ParkShard { lease, reason: ParkReason::Other, detail: bytes("secret-d"), op: OP }.into(),
        Release { lease, op: OP }.into(),
        SplitReplace { lease, parts: vec![part], op: OP }.into(),
        SplitResidual { lease, narrowed: spec.clone(), residual: spec, op: OP }.into(),
        RequestSplit { key: key(), requester: WORKER, patience_ms: 50 }.into(),
        DeclineSplit { lease, pause_ms: 50 }.into(),
        CreateRun { run: RUN, config }.into(),
        RegisterShards { run: RUN, shards: vec![shard.clone()], op: OP }.into(),
        CreateRunWithShards { run: RUN, config, shards: vec![shard], op: OP }.into(),
        GetRun { run: RUN }.into(),
        GetRunProgress { run: RUN }.into(),
        ListShards { run: RUN, filter }.into(),
        ChangeRun { run: RUN, change: RunTransition::Pause, op: OP }.into(),
        UnparkShard { key: key(), op: OP }.into(),
        CollectClaimCandidates { run: RUN, worker: WORKER, limit: 4 }.into(),
        Claim { run: RUN, worker: WORKER }.into(),
        FindRun { name }.into(),
        NameRun { run: RUN, name, instead_of: None, description: bytes("secret-j") }.into(),
        LabelOf { run: RUN }.into(),
        ListLabels {}.into(),
        PublishEstimate { lease, estimate }.into(),
        ListEstimates { run: RUN }.into(),
    ]
}

/// Converts every sample there and back, and checks that all other refusals are returned.
fn check_round_trip<E>()
where
    E: Samples + Clone + Debug + Display + PartialEq + Into<CoordError>,
    E: TryFrom<CoordError, Error = CoordError>,
{
    let mut own = Vec::new();
    for sample in E::samples() {
        let wide: CoordError = sample.clone().into();
        assert_eq!(wide.to_string(), sample.to_string());
        assert_eq!(E::try_from(wide.clone()), Ok(sample));
        own.push(wide);
    }
    for other in samples::all().into_iter().filter(|refusal| !own.contains(refusal)) {
        assert_eq!(E::try_from(other.clone()), Err(other));
    }
}

#[test]
fn every_error_variant_makes_the_round_trip() {
    check_round_trip::<AcquireError>();
    check_round_trip::<RenewError>();
    check_round_trip::<CheckpointError>();
    check_round_trip::<CompleteError>();
    check_round_trip::<ParkError>();
    check_round_trip::<ReleaseError>();
    check_round_trip::<SplitError>();
    check_round_trip::<SplitRequestError>();
    check_round_trip::<DeclineError>();
    check_round_trip::<CreateRunError>();
    check_round_trip::<RegisterShardsError>();
    check_round_trip::<RunQueryError>();
    check_round_trip::<RunTransitionError>();
    check_round_trip::<UnparkError>();
    check_round_trip::<ClaimError>();
    check_round_trip::<NameRunError>();
    check_round_trip::<InfraError>();
    check_round_trip::<CreateRunWithShardsError>();
}

#[test]
fn every_refusal_belongs_to_an_operation() {
    fn of<E: Samples + Into<CoordError>>() -> Vec<CoordError> {
        E::samples().into_iter().map(Into::into).collect()
    }
    let known = [
        of::<AcquireError>(),
        of::<CheckpointError>(),
        of::<ParkError>(),
        of::<SplitError>(),
        of::<SplitRequestError>(),
        of::<CreateRunWithShardsError>(),
        of::<RunTransitionError>(),
        of::<UnparkError>(),
        of::<ClaimError>(),
        of::<NameRunError>(),
    ];
    let known = known.concat();
    let homeless: Vec<_> = samples::all().into_iter().filter(|it| !known.contains(it)).collect();
    assert_eq!(homeless, []);
    let unlisted: Vec<_> = known.iter().filter(|it| !samples::all().contains(it)).collect();
    assert!(unlisted.is_empty(), "samples::all() lacks {unlisted:?}");
}

/// An error of two operations has one variant for an infrastructure error.
#[test]
fn failure_of_a_creation_is_one_of_the_registration() {
    let failed = InfraError::Corrupt { operation: "create", message: "torn".into() };
    let created = CreateRunWithShardsError::Create(failed.clone().into());
    let narrowed = CreateRunWithShardsError::try_from(CoordError::from(created));
    assert_eq!(narrowed, Ok(CreateRunWithShardsError::Register(failed.into())));
}

#[test]
fn table_has_26_operations_with_unique_names() {
    let names: Vec<&str> = requests().iter().map(Request::name).collect();
    assert_eq!(names, Request::<Vec<u8>>::NAMES);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 26);
}

#[test]
fn borrowed_and_owned_requests_are_equal() {
    for request in requests() {
        assert_eq!(request.as_ref().to_owned(), request, "{}", request.name());
        assert_eq!(request.as_ref().as_ref(), request.as_ref(), "{}", request.name());
    }
}

#[test]
fn debug_output_of_a_request_shows_no_bytes() {
    for request in requests() {
        let text = format!("{request:?} {request:#?}");
        let shows = text.contains("secret") || text.contains("115, 101");
        assert!(!shows, "{text}");
        assert!(text.contains("<8 bytes>") || !has_bytes(&request), "{text}");
    }
}

fn has_bytes(request: &Request<Vec<u8>>) -> bool {
    let mut count = 0;
    request.map(|_| count += 1);
    count > 0
}

#[test]
fn request_returns_its_run_shard_lease_and_op_id() {
    for request in requests() {
        let about = (request.run(), request.op_id(), request.is_query());
        let expected = match request.name() {
            "find_run" | "list_labels" => (None, None, true),
            "label_of" | "list_estimates" | "collect_claim_candidates" => (Some(RUN), None, true),
            name if name.starts_with("get") || name.starts_with("list") => (Some(RUN), None, true),
            "acquire_and_restore"
            | "claim_next_available"
            | "renew"
            | "request_split"
            | "decline_split"
            | "create_run"
            | "name_run"
            | "publish_estimate" => (Some(RUN), None, false),
            _ => (Some(RUN), Some(OP), false),
        };
        assert_eq!(about, expected, "{}", request.name());
        let shows_lease = format!("{request:?}").contains("lease: ");
        assert_eq!(request.lease(), shows_lease.then(lease).as_ref(), "{}", request.name());
        let has_shard = shows_lease
            || ["acquire_and_restore", "request_split", "unpark_shard"].contains(&request.name());
        assert_eq!(request.shard(), has_shard.then(key), "{}", request.name());
    }
}

/// Converts an output there and back.
fn check_reply<T>(output: T) -> Reply
where
    T: Clone + Debug + PartialEq + Into<Reply> + TryFrom<Reply, Error = Reply>,
{
    let reply: Reply = output.clone().into();
    assert_eq!(T::try_from(reply.clone()), Ok(output));
    reply
}

#[test]
fn every_output_makes_the_round_trip() {
    use IdempotentOutcome::{Executed, Replayed};
    let (shard, name) = (key().shard, RunName::new("nightly").unwrap());
    let label = RunLabel { name, description: b"why".as_slice().into() };
    let new_deadline = LogicalTime::from_millis(1);
    let renewed = RenewResult { new_deadline, notice: None, capacity: CapacityHint::default() };
    let replaced = crate::SplitReplaceResult { children: vec![shard] };
    let replies = [
        check_reply(renewed),
        check_reply(Executed(Some(crate::HolderNotice::default()))),
        check_reply(Replayed(())),
        check_reply(Executed(replaced)),
        check_reply(Executed(crate::SplitResidualResult { residual: shard })),
        check_reply(()),
        check_reply(crate::RunProgress::default()),
        check_reply(Vec::<crate::ShardSummary>::new()),
        check_reply((vec![shard], ClaimHint::default())),
        check_reply(Some(RUN)),
        check_reply(RUN),
        check_reply(Some(label.clone())),
        check_reply(vec![(RUN, label)]),
        check_reply(Vec::<crate::HeldEstimate>::new()),
    ];
    for (index, reply) in replies.iter().enumerate() {
        assert_eq!(reply.is_replay(), index == 2, "{reply:?}");
        assert_eq!(<()>::try_from(reply.clone()).is_ok(), *reply == Reply::Done);
    }
}

#[test]
fn answer_of_another_operation_is_corrupt() {
    let narrowed = narrow::<Vec<u8>, Checkpoint<Vec<u8>>>(Ok(Reply::Done));
    let Err(CheckpointError::BackendError(InfraError::Corrupt { operation, .. })) = narrowed else {
        panic!("{narrowed:?}");
    };
    assert_eq!(operation, "checkpoint");
    let refusal = crate::error::reason::RunPaused { run: RUN };
    let narrowed = narrow::<Vec<u8>, Renew>(Err(refusal.into()));
    let Err(RenewError::BackendError(error @ InfraError::Corrupt { .. })) = narrowed else {
        panic!("{narrowed:?}");
    };
    assert!(error.to_string().contains(&refusal.to_string()), "{error}");
    assert_eq!(narrow::<Vec<u8>, Renew>(widen(Err::<(), _>(error.clone()))), Err(error.into()));
}
