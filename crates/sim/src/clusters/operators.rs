//! Operators: they move, pin and freeze shards, and start and drain nodes.

use std::future::Future;

use shardwright_cluster::AdminError;
use shardwright_contracts::ShardId;

use super::director::{Director, Running, Scheduled, SimCluster, TaskReport, send_report};
use super::oracle::calls::failed_in_calm;
use crate::oracle::Finding;
use crate::runtime::executor::{TaskId, TaskOwner};

impl Director {
    /// Starts a random planned change.
    pub(super) fn operator_act(&mut self) {
        match self.rng.below(100) {
            0..45 => self.move_shard(),
            45..60 => self.start_node(),
            60..78 => self.drain_node(),
            78..86 => self.mark_drained(),
            86..96 => self.pin_or_unpin(),
            _ => self.freeze(),
        }
    }

    /// A random gate that runs, and its handle of the cluster.
    fn random_gate(&mut self) -> Option<(usize, SimCluster)> {
        let gates =
            self.processes.iter().enumerate().filter_map(|(process, state)| match &state.running {
                Running::Gate(gate) if !state.paused => Some((process, gate.cluster().clone())),
                _ => None,
            });
        let gates: Vec<_> = gates.collect();
        self.rng.pick(&gates).cloned()
    }

    /// Starts an operation through a random gate. It may be refused.
    pub(super) fn operate<F>(
        &mut self,
        what: String,
        act: impl FnOnce(SimCluster) -> F,
    ) -> Option<TaskId>
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let (process, cluster) = self.random_gate()?;
        self.note(format_args!("operation through process {process}: {what}"));
        let (operation, reports, clock) = (act(cluster), self.reports.clone(), self.clock.clone());
        let task = self.clock.spawn(TaskOwner::Process(process), async move {
            let result = operation.await;
            if let Some(task) = clock.current() {
                send_report(&reports, TaskReport::Operated { task, result });
            }
        });
        self.operations.insert(task, (process, what));
        self.operators.insert(task);
        Some(task)
    }

    pub(super) fn operated(
        &mut self,
        task: TaskId,
        result: Result<(), String>,
    ) -> Result<(), Finding> {
        let Some((_, what)) = self.operations.remove(&task) else { return Ok(()) };
        self.note(format_args!("{what}: {result:?}"));
        match result {
            Err(why) if self.settings.is_calm => Err(failed_in_calm(0, &format!("{what}: {why}"))),
            _ => Ok(()),
        }
    }

    fn random_shard(&mut self) -> ShardId {
        let count = self.settings.options.config.sharding.num_shards.get();
        ShardId::from_raw(self.rng.below(count.into()))
    }

    fn random_member(&mut self) -> Option<shardwright_placement::NodeAddress> {
        let members: Vec<_> = self.stored.members.keys().cloned().collect();
        self.rng.pick(&members).cloned()
    }

    fn move_shard(&mut self) {
        let (shard, Some(to)) = (self.random_shard(), self.random_member()) else { return };
        self.operate(format!("move shard {shard} to {to}"), |cluster| async move {
            settled(cluster.move_shard(shard, &to).await)
        });
    }

    fn pin_or_unpin(&mut self) {
        let shard = self.random_shard();
        let to = if self.rng.chance(600) { self.random_member() } else { None };
        let is_pinned = self
            .stored
            .assignments
            .get(&shard)
            .is_some_and(|assignment| assignment.target.flags.is_pinned());
        if is_pinned {
            self.operate(format!("unpin shard {shard}"), |cluster| async move {
                settled(cluster.unpin(shard).await)
            });
            return;
        }
        self.operate(format!("pin shard {shard} to {to:?}"), |cluster| async move {
            settled(cluster.pin(shard, to.as_ref()).await)
        });
    }

    fn freeze(&mut self) {
        let long = self.rng.between(100, 2_000);
        self.after_ms(long, Scheduled::Unfreeze);
        self.set_frozen(true);
    }

    pub(super) fn set_frozen(&mut self, frozen: bool) {
        self.operate(format!("set frozen to {frozen}"), |cluster| async move {
            settled(cluster.set_frozen(frozen).await)
        });
    }

    /// Number of open nodes that do not drain.
    fn nodes_staying(&self) -> usize {
        let stays = |node: &&super::director::Process| {
            let is_marked = self.stored.is_draining(&node.address);
            matches!(node.running, Running::Node(_)) && !node.draining && !is_marked
        };
        self.processes.iter().filter(stays).count()
    }

    fn nodes(&self) -> usize {
        self.settings.nodes + self.settings.spare_nodes
    }

    fn start_node(&mut self) {
        let process = self.rng.index(self.nodes());
        if self.processes.get(process).is_some_and(|state| !state.is_started) {
            self.start(process);
        }
    }

    fn drain_node(&mut self) {
        let process = self.rng.index(self.nodes());
        if self.nodes_staying() < 2 {
            return;
        }
        let Some(state) = self.processes.get_mut(process) else { return };
        let Running::Node(node) = state.running.clone() else { return };
        if std::mem::replace(&mut state.draining, true) {
            return;
        }
        let (life, reports) = (state.life, self.reports.clone());
        self.note(format_args!("process {process} drains"));
        self.clock.spawn(TaskOwner::Process(process), async move {
            node.drain().await;
            send_report(&reports, TaskReport::Drained { process, life });
        });
    }

    fn mark_drained(&mut self) {
        let Some(node) = self.random_member().filter(|_| self.nodes_staying() > 1) else { return };
        let long = self.rng.between(200, 3_000);
        self.after_ms(long, Scheduled::Undrain(node.clone()));
        self.set_drained(node, true);
    }

    pub(super) fn set_drained(&mut self, node: shardwright_placement::NodeAddress, drained: bool) {
        self.operate(format!("set drained of {node} to {drained}"), |cluster| async move {
            cluster.set_drained(&node, drained).await.map(|_| ()).map_err(|e| e.to_string())
        });
    }
}

/// A refusal is no failure.
pub(super) fn settled<T, R>(result: Result<T, AdminError<R>>) -> Result<(), String> {
    match result {
        Ok(_) | Err(AdminError::Refused(_)) => Ok(()),
        Err(AdminError::Unreadable) => Err("the cluster's records cannot be decoded".to_owned()),
        Err(AdminError::BeingDeleted | AdminError::Deleted) => {
            Err("no process deletes the cluster".to_owned())
        }
        Err(AdminError::Store(error)) => Err(error.to_string()),
    }
}
