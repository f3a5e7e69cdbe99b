//! Splitting off the rest of a shard for an idle worker.

use std::time::Duration;

use shardwright_contracts::{
    CursorUpdate, ShardId, ShardSpec, ShardSpecRef, SplitResidualPlan, SplitValidationError,
};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{AsyncCoordinationBackend as _, DeclineError, SplitResidualError};
use shardwright_frontier::{
    HintedSplitError, KeyBuf, MetadataBuf, ShardHint, decode_connector_extra, decode_hint,
    plan_hinted_split_residual_with_extra, propagate_hint_on_split,
};

use super::retry_state::RetryState;
use super::work::Work;
use super::{Stopped, stopped_by};
use crate::error::WorkerError;
use crate::event::WorkerEvent;

/// How long no split is to be requested of a shard that cannot be split now.
const INDIVISIBLE_FOR: Duration = Duration::from_secs(2);
/// How long no split is to be requested of a shard that will be done soon.
const SOON_DONE_FOR: Duration = Duration::from_millis(500);
/// The part of the remaining work that the holder keeps.
const KEPT: f64 = 0.5;

/// Whether a shard was split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Divided {
    /// Everything from the boundary on is this shard now.
    Yes(ShardId),
    /// Unchanged: the run protocol rejected the split.
    No(SplitInvalid),
}

/// Where the items not handed out yet can be split.
enum Boundary {
    At(Vec<u8>),
    /// Nowhere, until more of the source is read.
    Nowhere,
    /// The source failed to answer.
    Unknown,
}

impl Work<'_> {
    /// Answers a split request: with a residual shard, or with a time to request again.
    pub(super) async fn answer(&mut self) -> Result<(), Stopped> {
        let estimate = self.desk.holder.estimate(self.estimate).await;
        let least = self.desk.holder.shared.options.least_split.saturating_mul(2);
        let is_soon_done =
            estimate.left_ms.is_some_and(|left| u128::from(left) < least.as_millis());
        if is_soon_done {
            return self.decline(SOON_DONE_FOR).await;
        }
        let boundary = self.boundary().await;
        // No requests reach an indivisible shard, so it is published only where they would fail.
        self.estimate.indivisible(matches!(boundary, Boundary::Nowhere));
        let has_divided = match &boundary {
            Boundary::At(key) => self.give_away(key).await?,
            Boundary::Nowhere => false,
            Boundary::Unknown => return self.decline(INDIVISIBLE_FOR).await,
        };
        if !has_divided {
            let (shard, key) = (self.shard(), self.desk.backlog.handed_out.as_deref());
            self.desk.holder.report(WorkerEvent::Indivisible { shard, key });
            return self.decline(INDIVISIBLE_FOR).await;
        }
        Ok(())
    }

    /// Splits off everything from `boundary` on for an idle worker. Returns whether it did.
    async fn give_away(&mut self, boundary: &[u8]) -> Result<bool, Stopped> {
        let divided = self.divide(boundary, None).await?;
        if let Divided::No(_) = divided {
            return Ok(false);
        }
        self.desk.backlog.feed.narrow(boundary);
        Ok(true)
    }

    /// Where the hint allows a cut, at or after the key that halves the rest.
    async fn boundary(&mut self) -> Boundary {
        match self.halving_key().await {
            Boundary::At(key) => {
                let mut buffer = KeyBuf::new();
                let cut = self.hint.cut_at(&key, &mut buffer);
                cut.map_or(Boundary::Nowhere, |cut| Boundary::At(cut.to_vec()))
            }
            otherwise => otherwise,
        }
    }

    /// Whether both parts of a cut have keys.
    pub(super) fn is_inside(&self, cut: &[u8]) -> bool {
        let spec = self.spec.as_spec_ref();
        spec.start() < cut && (spec.end().is_empty() || cut < spec.end())
    }

    async fn halving_key(&mut self) -> Boundary {
        let shared = self.desk.holder.shared;
        let mut otherwise = Boundary::Nowhere;
        if !self.desk.backlog.feed.has_ended() {
            let (range, after) =
                (self.desk.backlog.feed.range(), self.desk.backlog.handed_out.as_deref());
            let is_after = |key: &[u8]| after.is_none_or(|after| key > after);
            match shared.connector.propose_split(range, after, KEPT).await {
                Ok(Some(key)) if is_after(&key) && self.is_inside(&key) => {
                    return Boundary::At(key);
                }
                // A split before an item in progress would give the item a second holder.
                Ok(_) => {}
                Err(_) => otherwise = Boundary::Unknown,
            }
        }
        // A holder with items in progress may split off everything after them.
        let middle = self.desk.backlog.feed.middle(!self.desk.backlog.tracker.is_empty());
        let middle = middle.filter(|key| self.is_inside(key));
        middle.map_or(otherwise, Boundary::At)
    }

    /// Splits off everything from `boundary` on, if the protocol allows it. The metadata of both
    /// parts describe their ranges. That of the part that stays has the tries of its last item, if
    /// there are any.
    pub(super) async fn divide(
        &mut self,
        boundary: &[u8],
        retry: Option<&RetryState>,
    ) -> Result<Divided, Stopped> {
        let shared = self.desk.holder.shared;
        let cursor = CursorUpdate::new(self.ledger.committed(), None);
        let (narrowed, residual) = match parts(self.spec.as_spec_ref(), cursor, boundary, retry) {
            Ok(parts) => parts,
            Err(HintedSplitError::Split(reason)) => return Ok(Divided::No(reason.into())),
            Err(source) => {
                return Err(WorkerError::Metadata { shard: self.shard(), source }.into());
            }
        };
        let plan = SplitResidualPlan::from_parts(narrowed.as_spec_ref(), residual.as_spec_ref());
        let (op, mut failures) = (self.new_op(), 0);
        let residual = loop {
            let lease = self.lease.lease();
            match shared.backend.split_residual(shared.tenant, &lease, &plan, op).await {
                Ok(outcome) => {
                    self.desk.holder.note_replay(self.shard(), &outcome);
                    break outcome.into_inner().residual;
                }
                Err(SplitResidualError::BackendError(error)) if error.is_retryable() => {
                    self.desk.holder.pause_after(&mut failures, &error).await;
                }
                Err(SplitResidualError::SplitInvalid(reason)) => return Ok(Divided::No(reason)),
                Err(refusal) => return Err(stopped_by(self.shard(), refusal)),
            }
        };
        self.spec = narrowed;
        self.lease.answered();
        self.estimate.narrowed(boundary);
        shared.handler.divided(&self.desk.assignment, boundary);
        let shard = self.shard();
        self.desk.holder.report(WorkerEvent::Split { shard, residual, boundary });
        Ok(Divided::Yes(residual))
    }

    async fn decline(&mut self, pause: Duration) -> Result<(), Stopped> {
        let shared = self.desk.holder.shared;
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let lease = self.lease.lease();
        self.lease.answered();
        match shared.backend.decline_split(shared.tenant, &lease, pause_ms).await {
            Ok(()) => Ok(()),
            // The request expires by itself.
            Err(DeclineError::BackendError(error)) if error.is_retryable() => Ok(()),
            Err(refusal) => Err(stopped_by(self.shard(), refusal)),
        }
    }
}

/// The hint of a shard, narrowed to its range.
pub(super) fn hint_of(spec: ShardSpecRef<'_>) -> Result<ShardHint<'static>, HintedSplitError> {
    Ok(propagate_hint_on_split(decode_hint(spec)?, spec.start(), spec.end())?)
}

/// Plans the two parts of a split.
fn parts(
    spec: ShardSpecRef<'_>,
    cursor: CursorUpdate<'_>,
    boundary: &[u8],
    retry: Option<&RetryState>,
) -> Result<(ShardSpec, ShardSpec), HintedSplitError> {
    // The tries of an earlier split are not those of an item of these parts.
    let (extra, _) = RetryState::split_from(decode_connector_extra(spec)?);
    let with_tries = retry.map(|retry| retry.append_to(extra));
    let extras = [with_tries.as_deref().unwrap_or(extra), extra];
    let mut buffers = [MetadataBuf::new(), MetadataBuf::new()];
    let plan = plan_hinted_split_residual_with_extra(spec, cursor, boundary, extras, &mut buffers)?;
    let [narrowed, residual] = [(0, plan.narrowed()), (1, plan.residual())].map(|(index, part)| {
        ShardSpec::try_from_ref(part)
            .map_err(|error| SplitValidationError::InvalidChildSpec { index, error })
    });
    Ok((narrowed?, residual?))
}
