use std::time::Duration;

use shardwright_cluster::{ClusterView, LeadError, LeaderStep, StepError};
use shardwright_contracts::Env;

use super::SessionAgent;
use super::loads::Loads;
use crate::notices::Activity;

/// How long a leader leaves things alone after a step: changes come in bursts.
const PAUSE: Duration = Duration::from_millis(10);
/// How long to wait after something went wrong.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

impl SessionAgent {
    /// Leads whenever nobody else does. It never ends by itself.
    pub(super) async fn lead(&self) {
        let cluster = &self.agent.cluster;
        let interval = Duration::from_millis(cluster.config().shard_mapping_check_interval_ms);
        let mut changes = cluster.changes();
        let mut loads = Loads::default();
        loop {
            let view = changes.borrow_and_update().clone();
            let next = match self.step(&view, &mut loads).await {
                Ok(Some(step)) => self.time_to_next(&step).min(interval),
                Ok(None) => interval,
                Err(()) => AFTER_FAILURE,
            };
            self.env().sleep(PAUSE).await;
            tokio::select! {
                biased;
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = self.env().sleep(next) => {}
            }
        }
    }

    /// Tries to lead if nobody does, and plans if it is this node that leads.
    async fn step(&self, view: &ClusterView, loads: &mut Loads) -> Result<Option<LeaderStep>, ()> {
        match view.live_leader() {
            Some(leader) if leader == self.membership.holder() => {}
            Some(_) => return Ok(None),
            // Who is about to go need not begin.
            None if self.wants_to_leave() && view.members.len() > 1 => return Ok(None),
            None => match self.membership.try_lead().await {
                Ok(()) => {}
                // Somebody else was faster, or this life is over.
                Err(LeadError::Refused(_) | LeadError::Over) => return Ok(None),
                Err(error) => {
                    let is_the_stores = matches!(error, LeadError::Store(_));
                    self.agent.notice_log.record(Activity::Lead, error);
                    return if is_the_stores { Err(()) } else { Ok(None) };
                }
            },
        }
        let loads = self.loads(view, loads).await;
        match self.membership.lead_step(loads).await {
            Ok(step) => Ok(Some(step)),
            Err(StepError::Refused(_) | StepError::Over) => Err(()),
            Err(error) => {
                self.agent.notice_log.record(Activity::Lead, error);
                Err(())
            }
        }
    }

    fn time_to_next(&self, step: &LeaderStep) -> Duration {
        match step.plan.ask_again_at {
            Some(at) => {
                let now = self.agent.cluster.now().as_millis();
                Duration::from_millis(at.as_millis().saturating_sub(now))
            }
            None => Duration::MAX,
        }
    }
}
