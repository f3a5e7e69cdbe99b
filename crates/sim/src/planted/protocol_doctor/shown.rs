//! Views and events that a bug changes.

use shardwright_contracts::{ShardId, ShardKey, TenantId};
use shardwright_coordination::{
    EventKind, ParkReason, ShardStatus, ShardSummary, StateTransitionEvent,
};

use super::ProtocolDoctor;
use super::answers::raised;
use crate::planted::protocol::ProtocolBug;
use crate::request::{Answer, Request, RequestExt};
use crate::visible::RunView;

impl ProtocolDoctor {
    /// Changes the view of a run.
    pub(super) fn show(&mut self, view: &mut RunView) {
        let address = (view.record.tenant, view.record.run);
        let place = |shard: ShardId| (address.0, ShardKey::new(address.1, shard));
        match self.bug {
            ProtocolBug::LastChildLost => {
                view.shards.retain(|shard| !self.last_children.contains(&place(shard.shard)));
            }
            ProtocolBug::ExpiredCountedAsLeased => {
                let leased = view.shards.iter().filter(|shard| shard.lease_deadline.is_some());
                view.progress.leased = leased.count() as u32;
            }
            ProtocolBug::WatermarkGoesBack if view.progress.watermark.is_some() => {
                if !self.watermarked.insert(address) {
                    view.progress.watermark = None;
                }
            }
            ProtocolBug::EndUntimed => {
                let created_at = view.record.created_at;
                view.record.completed_at = view.record.completed_at.map(|_| created_at);
            }
            ProtocolBug::RunEndsTwice => {
                let status = self.statuses.get(&address).copied();
                view.record.status = status.unwrap_or(view.record.status);
            }
            _ => {
                for shard in &mut view.shards {
                    self.show_shard(address.0, place(shard.shard).1, shard);
                }
            }
        }
    }

    fn show_shard(&self, tenant: TenantId, key: ShardKey, shard: &mut ShardSummary) {
        let place = (tenant, key);
        match self.bug {
            ProtocolBug::ResidualStartsLate if self.residuals.contains(&place) => {
                shard.start = [&shard.start, &[0][..]].concat().into();
            }
            ProtocolBug::ParentNotNarrowed => {
                if let Some(end) = self.ends.get(&place) {
                    shard.end = end.clone().into();
                }
            }
            ProtocolBug::LeaseKeptOnComplete if shard.status == ShardStatus::Done => {
                shard.lease_deadline = self.completed.get(&place).copied();
            }
            ProtocolBug::ChildCursorAhead
                if self.later_children.contains(&place) && shard.last_key.is_none() =>
            {
                shard.last_key = Some(shard.start.clone());
            }
            _ => {}
        }
    }

    /// Changes the events of a request.
    pub(super) fn publish(
        &self,
        request: &Request,
        outcome: &Answer,
        events: &mut Vec<StateTransitionEvent>,
    ) {
        match self.bug {
            ProtocolBug::CheckpointSilent => {
                events.retain(|it| !matches!(it.kind, EventKind::ShardCheckpointed { .. }));
            }
            // Removes the events of calls that the bug added.
            ProtocolBug::PauseIgnored | ProtocolBug::ParkedInPause => {
                if matches!(request, Request::Acquire(_) | Request::Claim(_)) {
                    let is_added = |kind: &EventKind| {
                        matches!(kind, EventKind::RunPaused | EventKind::RunResumed)
                    };
                    events.retain(|it| !is_added(&it.kind));
                }
            }
            ProtocolBug::PauseSpreads => events.retain(|it| it.run == request.run_id()),
            ProtocolBug::RefusedParkFrees if outcome.is_err() => {
                events.retain(|it| !matches!(it.kind, EventKind::ShardReleased { .. }));
            }
            ProtocolBug::CapacityStale => {
                let is_renewal = |it: &StateTransitionEvent| {
                    matches!(it.kind, EventKind::ShardLeaseRenewed { .. })
                };
                // The first event is that of the added renewal.
                if events.len() > 1 && events.first().is_some_and(is_renewal) {
                    events.remove(0);
                }
            }
            ProtocolBug::ParkedTooSoon if outcome.is_err() => {
                events.retain(|it| !matches!(it.kind, EventKind::ShardAcquired { .. }));
            }
            ProtocolBug::ParkPublishedTwice => {
                let is_park =
                    |it: &&StateTransitionEvent| matches!(it.kind, EventKind::ShardParked { .. });
                let again: Vec<_> = events.iter().filter(is_park).cloned().collect();
                events.extend(again);
            }
            _ => events.iter_mut().for_each(|event| self.change_event(request, event)),
        }
    }

    fn change_event(&self, request: &Request, event: &mut StateTransitionEvent) {
        match (self.bug, &mut event.kind) {
            (
                ProtocolBug::UnparkPublishesAnother,
                EventKind::ShardUnparked { new_fence_epoch, .. },
            ) => {
                *new_fence_epoch = raised(*new_fence_epoch, 1);
            }
            (ProtocolBug::ParkedForNothing, EventKind::ShardParked { reason, .. })
                if matches!(request, Request::Acquire(_) | Request::Claim(_)) =>
            {
                *reason = ParkReason::Other;
            }
            _ => {}
        }
    }
}
