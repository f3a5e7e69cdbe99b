//! The same requests by way of a worker's session, whose last operation takes it away.

use shardwright_contracts::{
    Cursor, CursorSemantics, LogicalTime, ShardSpec, ShardSpecRef, TenantId,
};
use shardwright_coordination::{
    AcquireResultView, AcquireScratch, CapacityHint, CoordError, IdempotentOutcome, Lease,
    RestoredShardState, SessionEnd, SessionNotEnded, ShardStatus, WorkerSession,
};

use super::{
    Answer, Outcome, System, applied, call, granted, plan_replace, plan_residual, spawned,
};
use crate::request::{HolderAct, Request};

/// Puts a request to the system, through a session if it is one that a session can make.
pub fn call_in_session(
    system: &mut impl System,
    now: LogicalTime,
    tenant: TenantId,
    request: &Request,
    scratch: &mut AcquireScratch,
) -> Option<Outcome> {
    match request {
        Request::Acquire { key, worker } => {
            let session = match WorkerSession::new(system, now, tenant, *key, *worker) {
                Ok(session) => session,
                Err(error) => return Some(Err(error.into())),
            };
            let (lease, capacity) = (*session.lease(), session.capacity());
            let snapshot = session.initial_snapshot();
            Some(Ok(granted(AcquireResultView { lease, snapshot, capacity })))
        }
        // A session acts in the name of its lease and of nobody else.
        Request::Holder { lease, act } if lease.tenant() == tenant => {
            act_in_session(system, now, lease, act)
        }
        _ => call(system, now, tenant, request, scratch),
    }
}

fn act_in_session(
    system: &mut impl System,
    now: LogicalTime,
    lease: &Lease,
    act: &HolderAct,
) -> Option<Outcome> {
    let mut session = WorkerSession::from_acquire_result(system, holding(lease)?);
    Some(match act {
        HolderAct::Renew => session.renew(now).map(Answer::Renewed).map_err(Into::into),
        HolderAct::Decline { not_before } => {
            session.decline_split(now, *not_before).map(|()| Answer::Noted).map_err(Into::into)
        }
        HolderAct::Checkpoint { cursor, op } => session
            .checkpoint(now, cursor.as_update(), *op)
            .map(|outcome| Answer::Noticed {
                replayed: outcome.is_replay(),
                notice: outcome.into_inner(),
            })
            .map_err(Into::into),
        HolderAct::SplitResidual { split, op } => session
            .split_residual(now, &plan_residual(split)?, *op)
            .map(|outcome| spawned(outcome.map(|result| vec![result.residual])))
            .map_err(Into::into),
        HolderAct::Complete { cursor, op } => {
            ended(lease, session.complete(now, cursor.as_update(), *op), applied)
        }
        HolderAct::Park { reason, detail, op } => {
            ended(lease, session.park(now, *reason, detail, *op), applied)
        }
        HolderAct::Release { op } => ended(lease, session.release(now, *op), applied),
        HolderAct::SplitReplace { split, op } => {
            let children = split.children();
            let plan = plan_replace(split, &children)?;
            let tell = |outcome: IdempotentOutcome<_>| spawned(outcome);
            let outcome = session.split_replace(now, &plan, *op);
            let outcome = outcome.map(|outcome| outcome.map(|result| result.children));
            ended(lease, outcome, tell)
        }
    })
}

/// What came of an operation that takes the session away; one that failed gives it back as it was.
fn ended<B, T, E: Into<CoordError>>(
    lease: &Lease,
    outcome: SessionEnd<'_, B, T, E>,
    tell: impl FnOnce(IdempotentOutcome<T>) -> Answer,
) -> Outcome
where
    B: System,
{
    match outcome {
        Ok(outcome) => Ok(tell(outcome)),
        Err(SessionNotEnded { session, error }) => {
            assert_eq!(session.lease(), lease, "a session came back with another lease");
            Err(error.into())
        }
    }
}

/// What a worker that goes on with a lease knows of its shard: no more than it needs to act.
fn holding(lease: &Lease) -> Option<RestoredShardState> {
    Some(RestoredShardState {
        lease: *lease,
        status: ShardStatus::Active,
        spec: ShardSpec::try_from_ref(ShardSpecRef::new(b"a", b"b", b"")).ok()?,
        cursor: Cursor::initial(),
        cursor_semantics: CursorSemantics::default(),
        parent: None,
        spawned: Vec::new(),
        fruitless_acquires: 1,
        capacity: CapacityHint::default(),
    })
}
