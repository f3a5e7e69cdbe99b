//! The operator: pauses, resumes and cancels the run, unparks shards and stops workers.

use std::ops::Range;

use shardwright_contracts::{OpId, ShardId, ShardKey};
use shardwright_coordination::{AsyncRunManagement, RunStatus, ShardStatus};

use super::director::{Director, TaskReport, send_report};
use super::source::left;
use super::stored_state::{RUN, TENANT};
use super::tally::WorkerFault;
use crate::runtime::executor::TaskOwner;

/// Number of times that an order is sent with the same op id.
const ATTEMPTS: u32 = 6;
const RETRY_US: u64 = 40_000;

/// An order of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Pause,
    Resume,
    Cancel,
    Unpark(ShardId),
}

impl Director {
    /// A random order during chaos.
    pub(super) fn operator_act(&mut self) {
        match self.rng.below(100) {
            0..40 => self.order(Order::Pause),
            40..55 => self.stop_worker(),
            55..60 if self.settings.may_cancel => self.order(Order::Cancel),
            _ => self.unpark_any(|_| true),
        }
    }

    /// Unparks a shard with an unprocessed item for which `deserves` is true.
    pub(super) fn unpark_any(&mut self, deserves: impl Fn(u64) -> bool) {
        let is_parked = |status: ShardStatus| status == ShardStatus::Parked;
        let has_any = |mut left: Range<u64>| left.any(&deserves);
        let parked: Vec<ShardId> = self
            .stored
            .shards()
            .filter(|shard| is_parked(shard.head.status) && has_any(left(shard)))
            .map(|shard| shard.head.key.shard)
            .collect();
        if let Some(shard) = self.rng.pick(&parked).copied() {
            self.order(Order::Unpark(shard));
        }
    }

    fn stop_worker(&mut self) {
        let process = self.rng.index(self.settings.processes);
        if let Some(state) = self.processes.get(process).filter(|state| state.is_up) {
            state.stop.stop();
            self.script.lock().fault(WorkerFault::Stopped);
            self.note(format_args!("worker {process} is requested to stop"));
        }
    }

    /// Sends an order, unless one is in flight.
    pub(super) fn order(&mut self, order: Order) {
        let is_active = self.stored.status() == Some(RunStatus::Active);
        let (Some(coordinator), None, true) = (&self.operator, self.ordered, is_active) else {
            return;
        };
        let fault = match order {
            Order::Pause => Some(WorkerFault::RunPaused),
            Order::Cancel => Some(WorkerFault::RunCancelled),
            Order::Unpark(_) => Some(WorkerFault::ShardUnparked),
            Order::Resume => None,
        };
        if let Some(fault) = fault {
            self.script.lock().fault(fault);
        }
        self.ordered = Some(order);
        let (coordinator, clock, reports) =
            (coordinator.clone(), self.clock.clone(), self.reports.clone());
        let op = OpId::from_raw(self.rng.next());
        self.clock.spawn(TaskOwner::Process(self.settings.processes), async move {
            let mut how = String::new();
            for _ in 0..ATTEMPTS {
                let done = match order {
                    Order::Pause => answered(coordinator.pause_run(TENANT, RUN, op).await),
                    Order::Resume => answered(coordinator.resume_run(TENANT, RUN, op).await),
                    Order::Cancel => answered(coordinator.cancel_run(TENANT, RUN, op).await),
                    Order::Unpark(shard) => {
                        let key = ShardKey::new(RUN, shard);
                        answered(coordinator.unpark_shard(TENANT, key, op).await)
                    }
                };
                let is_done = done.is_ok();
                how = done.unwrap_or_else(|refusal| refusal);
                if is_done {
                    break;
                }
                clock.sleep_us(RETRY_US).await;
            }
            send_report(&reports, TaskReport::Ordered { order, how });
        });
    }
}

fn answered<T, E: std::fmt::Display>(answer: Result<T, E>) -> Result<String, String> {
    answer.map(|_| "done".to_owned()).map_err(|error| error.to_string())
}
