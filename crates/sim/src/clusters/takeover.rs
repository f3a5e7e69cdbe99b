//! Something that would be lost in chaos: in fair faults one node keeps its session and claims
//! nothing, and another dies. Others must have its shards in time all the same.

use shardwright_contracts::ShardId;
use shardwright_placement::{NodeAddress, NodeInstance, PinPolicy};

use super::director::Director;
use super::operators::settled;
use super::oracle::broken;
use super::oracle::ownership::{TAKING_OVER, Waiting};
use crate::oracle::Finding;

const STEP_US: u64 = 10_000;
/// How long it may take until others have what a node had that is gone.
const SOON_MS: u64 = 2_000;
/// How many shards are pinned to the node that dies.
const PINS: usize = 2;

impl Director {
    /// Lets it happen to some of the nodes, and tells whether it did.
    pub(super) fn takeover(&mut self, nodes: usize) -> Result<bool, Finding> {
        if nodes < 3 || self.rng.chance(400) {
            return Ok(false);
        }
        let idle = self.rng.index(nodes);
        self.refuse_claims(idle);
        let on_trial = self.rng.chance(500) && self.let_it_be_noticed(idle)?;
        let leader = self.stored.leader.clone();
        let is_leader =
            |address: NodeAddress| leader.as_ref().is_some_and(|leader| leader.address == address);
        // Only the leader knows who is on trial.
        let mortal = |process: &usize| {
            *process != idle && !(on_trial && self.address(*process).is_some_and(is_leader))
        };
        let mortals: Vec<usize> = (0..nodes).filter(mortal).collect();
        if let Some(process) = self.rng.pick(&mortals).copied() {
            self.pin_to(process)?;
            self.end_for_good(process)?;
            self.watch_over(idle, on_trial.then_some(leader).flatten().as_ref())?;
        }
        self.faults.lock().claimless.clear();
        Ok(true)
    }

    fn address(&self, process: usize) -> Option<NodeAddress> {
        self.processes.get(process).map(|process| process.address.clone())
    }

    /// Waits until the leader has found out that a node claims nothing, and would try it again.
    /// Tells whether it came to that.
    fn let_it_be_noticed(&mut self, idle: usize) -> Result<bool, Finding> {
        let Some(node) = self.address(idle) else { return Ok(false) };
        let is_of_others = |shard: &&ShardId| {
            self.stored.holder(**shard).is_some_and(|holder| holder.address != node)
        };
        let Some(shard) = self.stored.aims.keys().find(is_of_others).copied() else {
            return Ok(false);
        };
        let to = node.clone();
        self.operate(format!("move shard {shard} to {to}"), |cluster| async move {
            settled(cluster.move_shard(shard, &to).await)
        });
        let stuck_after_ms = self.settings.options.config.stuck_after_ms;
        let meant = |director: &Self| {
            let aim = director.stored.aims.get(&shard);
            aim.is_some_and(|aim| aim.target.node.as_ref() == Some(&node))
        };
        if !self.wait_until(SOON_MS, meant)? {
            return Ok(false);
        }
        if !self.wait_until(stuck_after_ms + SOON_MS, |director| !meant(director))? {
            let text = format!("{node} did not claim shard {shard}, and that was not noticed");
            return Err(broken(TAKING_OVER, text));
        }
        self.wait_until(stuck_after_ms + 300, |_| false)?;
        Ok(true)
    }

    /// Pins some of what a node has, unless that would have to wait for it.
    fn pin_to(&mut self, process: usize) -> Result<(), Finding> {
        if self.settings.options.config.pin_policy == PinPolicy::Wait {
            return Ok(());
        }
        let Some(node) = self.address(process) else { return Ok(()) };
        let is_its = |shard: &&ShardId| {
            self.stored.holder(**shard).is_some_and(|holder| holder.address == node)
        };
        let shards: Vec<_> = self.stored.aims.keys().filter(is_its).copied().take(PINS).collect();
        for shard in shards {
            self.operate(format!("pin shard {shard}"), |cluster| async move {
                settled(cluster.pin(shard, None).await)
            });
            self.wait_until(SOON_MS, |director| director.operations.is_empty())?;
        }
        Ok(())
    }

    /// Ends a process, and waits until its session has run out.
    fn end_for_good(&mut self, process: usize) -> Result<(), Finding> {
        let Some(node) = self.address(process) else { return Ok(()) };
        self.note(format_args!("process {process} dies"));
        self.stop(process);
        let ttl_ms = self.settings.options.session_ttl.as_millis() as u64;
        self.wait_until(ttl_ms * 2, |director| !director.stored.members.contains_key(&node))
            .map(drop)
    }

    /// Judges whether others have what a node had that has just gone. If who leads has known that
    /// the idle one does not claim, it waits for nothing else.
    fn watch_over(&mut self, idle: usize, knows: Option<&NodeInstance>) -> Result<(), Finding> {
        let is_known = knows.is_some() && knows == self.stored.leader.as_ref();
        let stuck_after_ms = self.settings.options.config.stuck_after_ms;
        let limit_ms = if is_known { SOON_MS } else { SOON_MS + stuck_after_ms };
        let on_trial = self.address(idle).filter(|_| is_known);
        let mut waiting = Waiting::new(&self.stored, on_trial);
        if self.wait_until(limit_ms, |director| waiting.look(&director.stored))? {
            return Ok(());
        }
        Err(waiting.too_long(&self.stored))
    }

    /// Lets everything go on until something is so, and tells whether it is by then.
    fn wait_until(
        &mut self,
        at_most_ms: u64,
        mut is: impl FnMut(&Self) -> bool,
    ) -> Result<bool, Finding> {
        let until_us = self.clock.now_us() + at_most_ms * 1_000;
        while !is(self) {
            if self.clock.now_us() >= until_us {
                return Ok(false);
            }
            self.next_act_us = self.clock.now_us() + STEP_US;
            self.run_until_act()?;
        }
        Ok(true)
    }
}
