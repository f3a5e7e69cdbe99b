//! A takeover in an otherwise healthy cluster: one node keeps its session and claims nothing, and
//! another dies. The remaining nodes must hold its shards in time.

use shardwright_contracts::ShardId;
use shardwright_placement::{NodeAddress, NodeInstance, PinPolicy};

use super::director::Director;
use super::operators::settled;
use super::oracle::ownership::{TAKEOVER, UnheldShards};
use super::oracle::violation;
use crate::oracle::Finding;

const STEP_US: u64 = 10_000;
/// Time within which a node's shards are taken over.
const TAKEOVER_MS: u64 = 2_000;
/// Number of shards that are pinned to the node that dies.
const PINS: usize = 2;

impl Director {
    /// Kills a random node while another claims nothing. Returns false in a world without takeover.
    pub(super) fn takeover(&mut self, nodes: usize) -> Result<bool, Finding> {
        if nodes < 3 || self.rng.chance(400) {
            return Ok(false);
        }
        let idle = self.rng.index(nodes);
        self.refuse_claims(idle);
        let on_trial = self.rng.chance(500) && self.put_on_trial(idle)?;
        let leader = self.stored.leader.clone();
        let is_leader =
            |address: NodeAddress| leader.as_ref().is_some_and(|leader| leader.address == address);
        // Only the leader knows which node is on trial, so it must not die then.
        let may_die = |process: &usize| {
            *process != idle && !(on_trial && self.address(*process).is_some_and(is_leader))
        };
        let candidates: Vec<usize> = (0..nodes).filter(may_die).collect();
        if let Some(process) = self.rng.pick(&candidates).copied() {
            self.pin_shards(process)?;
            self.kill(process)?;
            self.judge_takeover(idle, on_trial.then_some(leader).flatten().as_ref())?;
        }
        self.faults.lock().claimless.clear();
        Ok(true)
    }

    fn address(&self, process: usize) -> Option<NodeAddress> {
        self.processes.get(process).map(|process| process.address.clone())
    }

    /// Waits until the leader has detected that a node claims nothing, and has it on trial. Returns
    /// false if that does not happen.
    fn put_on_trial(&mut self, idle: usize) -> Result<bool, Finding> {
        let Some(node) = self.address(idle) else { return Ok(false) };
        let is_elsewhere = |shard: &&ShardId| {
            self.stored.holder(**shard).is_some_and(|holder| holder.address != node)
        };
        let Some(shard) = self.stored.assignments.keys().find(is_elsewhere).copied() else {
            return Ok(false);
        };
        let to = node.clone();
        self.operate(format!("move shard {shard} to {to}"), |cluster| async move {
            settled(cluster.move_shard(shard, &to).await)
        });
        let stuck_after_ms = self.settings.options.config.stuck_after_ms;
        let is_target = |director: &Self| {
            let assignment = director.stored.assignments.get(&shard);
            assignment.is_some_and(|assignment| assignment.target.node.as_ref() == Some(&node))
        };
        if !self.wait_until(TAKEOVER_MS, is_target)? {
            return Ok(false);
        }
        if !self.wait_until(stuck_after_ms + TAKEOVER_MS, |director| !is_target(director))? {
            let text =
                format!("the leader did not detect that {node} does not claim shard {shard}");
            return Err(violation(TAKEOVER, text));
        }
        self.wait_until(stuck_after_ms + 300, |_| false)?;
        Ok(true)
    }

    /// Pins some shards of a node, unless pinned shards wait for their node.
    fn pin_shards(&mut self, process: usize) -> Result<(), Finding> {
        if self.settings.options.config.pin_policy == PinPolicy::Wait {
            return Ok(());
        }
        let Some(node) = self.address(process) else { return Ok(()) };
        let is_its = |shard: &&ShardId| {
            self.stored.holder(**shard).is_some_and(|holder| holder.address == node)
        };
        let shards: Vec<_> =
            self.stored.assignments.keys().filter(is_its).copied().take(PINS).collect();
        for shard in shards {
            self.operate(format!("pin shard {shard}"), |cluster| async move {
                settled(cluster.pin(shard, None).await)
            });
            self.wait_until(TAKEOVER_MS, |director| director.operations.is_empty())?;
        }
        Ok(())
    }

    /// Stops a process, and waits until its session has expired.
    fn kill(&mut self, process: usize) -> Result<(), Finding> {
        let Some(node) = self.address(process) else { return Ok(()) };
        self.note(format_args!("process {process} dies"));
        self.stop(process);
        let ttl_ms = self.settings.options.session_ttl.as_millis() as u64;
        self.wait_until(ttl_ms * 2, |director| !director.stored.members.contains_key(&node))
            .map(drop)
    }

    /// Judges whether the dead node's shards are taken over in time. A leader that does not know
    /// yet that the idle node claims nothing may take longer.
    fn judge_takeover(
        &mut self,
        idle: usize,
        informed: Option<&NodeInstance>,
    ) -> Result<(), Finding> {
        let is_known = informed.is_some() && informed == self.stored.leader.as_ref();
        let stuck_after_ms = self.settings.options.config.stuck_after_ms;
        let limit_ms = if is_known { TAKEOVER_MS } else { TAKEOVER_MS + stuck_after_ms };
        let on_trial = self.address(idle).filter(|_| is_known);
        let mut unheld = UnheldShards::new(&self.stored, on_trial);
        if self.wait_until(limit_ms, |director| unheld.update(&director.stored))? {
            return Ok(());
        }
        Err(unheld.late_takeover(&self.stored))
    }

    /// Runs the world until a condition holds. Returns false if it does not hold in time.
    fn wait_until(
        &mut self,
        at_most_ms: u64,
        mut holds: impl FnMut(&Self) -> bool,
    ) -> Result<bool, Finding> {
        let until_us = self.clock.now_us() + at_most_ms * 1_000;
        while !holds(self) {
            if self.clock.now_us() >= until_us {
                return Ok(false);
            }
            self.next_act_us = self.clock.now_us() + STEP_US;
            self.run_until_act()?;
        }
        Ok(true)
    }
}
