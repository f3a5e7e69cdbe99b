//! People who run a cluster: they move, pin, freeze and drain.

use std::future::Future;

use shardwright_cluster::AdminError;
use shardwright_contracts::ShardId;

use super::director::{Director, Later, Running, SimCluster, Word, tell};
use super::oracle::calls::failed_in_calm;
use crate::oracle::Finding;
use crate::runtime::executor::{TaskId, TaskOwner};

impl Director {
    /// Somebody does something to the cluster, as planned.
    pub(super) fn operator_act(&mut self) {
        match self.rng.below(100) {
            0..45 => self.move_some(),
            45..60 => self.join_some(),
            60..78 => self.drain_some(),
            78..86 => self.mark_some(),
            86..96 => self.pin_some(),
            _ => self.freeze(),
        }
    }

    /// The cluster as a gate sees it.
    fn desk(&mut self) -> Option<(usize, SimCluster)> {
        let gates =
            self.processes.iter().enumerate().filter_map(|(process, state)| match &state.running {
                Running::Gate(gate) if !state.paused => Some((process, gate.cluster().clone())),
                _ => None,
            });
        let gates: Vec<_> = gates.collect();
        self.rng.pick(&gates).cloned()
    }

    /// Asks for something. Nobody minds if it is refused.
    pub(super) fn operate<F>(
        &mut self,
        what: String,
        act: impl FnOnce(SimCluster) -> F,
    ) -> Option<TaskId>
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let (process, cluster) = self.desk()?;
        self.note(format_args!("an operator asks {process}: {what}"));
        let (acting, words, clock) = (act(cluster), self.words.clone(), self.clock.clone());
        let task = self.clock.spawn(TaskOwner::Process(process), async move {
            let result = acting.await;
            if let Some(task) = clock.current() {
                tell(&words, Word::Operated { task, result });
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

    fn some_shard(&mut self) -> ShardId {
        let count = self.settings.options.config.sharding.num_shards.get();
        ShardId::from_raw(self.rng.below(count.into()))
    }

    fn some_member(&mut self) -> Option<shardwright_placement::NodeAddress> {
        let members: Vec<_> = self.stored.members.keys().cloned().collect();
        self.rng.pick(&members).cloned()
    }

    fn move_some(&mut self) {
        let (shard, Some(to)) = (self.some_shard(), self.some_member()) else { return };
        self.operate(format!("move shard {shard} to {to}"), |cluster| async move {
            settled(cluster.move_shard(shard, &to).await)
        });
    }

    fn pin_some(&mut self) {
        let shard = self.some_shard();
        let to = if self.rng.chance(600) { self.some_member() } else { None };
        let is_pinned =
            self.stored.aims.get(&shard).is_some_and(|aim| aim.target.flags.is_pinned());
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
        self.after_ms(long, Later::Unfreeze);
        self.set_frozen(true);
    }

    pub(super) fn set_frozen(&mut self, frozen: bool) {
        self.operate(format!("freeze {frozen}"), |cluster| async move {
            settled(cluster.set_frozen(frozen).await)
        });
    }

    /// How many nodes are up and not about to go.
    fn staying(&self) -> usize {
        let stays = |node: &&super::director::Process| {
            let is_marked = self.stored.is_draining(&node.address);
            matches!(node.running, Running::Node(_)) && !node.draining && !is_marked
        };
        self.processes.iter().filter(stays).count()
    }

    fn nodes(&self) -> usize {
        self.settings.nodes + self.settings.spare_nodes
    }

    fn join_some(&mut self) {
        let process = self.rng.index(self.nodes());
        if self.processes.get(process).is_some_and(|state| !state.is_started) {
            self.start(process);
        }
    }

    fn drain_some(&mut self) {
        let process = self.rng.index(self.nodes());
        if self.staying() < 2 {
            return;
        }
        let Some(state) = self.processes.get_mut(process) else { return };
        let Running::Node(node) = state.running.clone() else { return };
        if std::mem::replace(&mut state.draining, true) {
            return;
        }
        let (life, words) = (state.life, self.words.clone());
        self.note(format_args!("process {process} is told to drain"));
        self.clock.spawn(TaskOwner::Process(process), async move {
            node.drain().await;
            tell(&words, Word::Drained { process, life });
        });
    }

    fn mark_some(&mut self) {
        let Some(node) = self.some_member().filter(|_| self.staying() > 1) else { return };
        let long = self.rng.between(200, 3_000);
        self.after_ms(long, Later::Undrain(node.clone()));
        self.set_drained(node, true);
    }

    pub(super) fn set_drained(&mut self, node: shardwright_placement::NodeAddress, drained: bool) {
        self.operate(format!("drain {node} {drained}"), |cluster| async move {
            cluster.set_drained(&node, drained).await.map(|_| ()).map_err(|e| e.to_string())
        });
    }
}

/// What was refused is settled as well.
pub(super) fn settled<T, R>(result: Result<T, AdminError<R>>) -> Result<(), String> {
    match result {
        Ok(_) | Err(AdminError::Refused(_)) => Ok(()),
        Err(AdminError::Unreadable) => Err("unreadable".to_owned()),
        Err(AdminError::Store(error)) => Err(error.to_string()),
    }
}
