use std::collections::BTreeSet;

use shardwright_contracts::ShardId;
use shardwright_placement::NodeAddress;

use super::broken;
use crate::clusters::truth::Truth;
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "taking over",
    "what a node had that is gone, others have within two seconds, as long as those claim that are \
     trusted; and when it has been noticed that one does not, others have what was meant for it",
);

/// The shards that nobody was seen to have since a node is gone.
pub(in crate::clusters) struct Waiting {
    shards: BTreeSet<ShardId>,
    /// One that is on trial, which may be what one of them waits for.
    on_trial: Option<NodeAddress>,
}

impl Waiting {
    pub(in crate::clusters) fn new(truth: &Truth, on_trial: Option<NodeAddress>) -> Self {
        Self { shards: truth.aims.keys().copied().collect(), on_trial }
    }

    /// Looks who has them now, and tells whether somebody has had each.
    pub(in crate::clusters) fn look(&mut self, truth: &Truth) -> bool {
        self.shards.retain(|shard| truth.holder(*shard).is_none());
        let is_tried = |shard: &&ShardId| {
            let meant = truth.aims.get(shard).and_then(|aim| aim.target.node.as_ref());
            self.on_trial.is_some() && meant == self.on_trial.as_ref()
        };
        let allowed = self.shards.iter().filter(is_tried).count().min(1);
        self.shards.len() <= allowed
    }

    /// What is wrong if nobody has had some of them for too long.
    pub(in crate::clusters) fn too_long(&self, truth: &Truth) -> Finding {
        let meant = |shard: &ShardId| {
            let aim = truth.aims.get(shard);
            (shard.as_raw(), aim.and_then(|aim| aim.target.node.clone()))
        };
        let shards: Vec<_> = self.shards.iter().map(meant).collect();
        broken(ORACLE, format!("nobody has {shards:?}; on trial is {:?}", self.on_trial))
    }
}
