use std::collections::BTreeMap;

use shardwright_contracts::ShardId;

use super::ensure;
use crate::clusters::counter::Place;
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "eviction",
    "a shard is released only when none of its objects is awake on the node any more",
);

/// How many objects are awake, by process and shard. One that dies takes its objects along.
#[derive(Default)]
pub(in crate::clusters) struct Awake {
    objects: BTreeMap<(usize, ShardId), u64>,
}

impl Awake {
    pub(in crate::clusters) fn woke(&mut self, place: &Place) {
        if let Some(shard) = place.shard {
            *self.objects.entry((place.process, shard)).or_default() += 1;
        }
    }

    pub(in crate::clusters) fn went(&mut self, place: &Place) {
        if let Some(shard) = place.shard
            && let Some(count) = self.objects.get_mut(&(place.process, shard))
        {
            *count = count.saturating_sub(1);
        }
    }

    /// Judges a release.
    pub(in crate::clusters) fn judge(&self, process: usize, shard: ShardId) -> Result<(), Finding> {
        let awake = self.objects.get(&(process, shard)).copied().unwrap_or_default();
        ensure(ORACLE, awake == 0, || {
            format!("process {process} released shard {shard} with {awake} objects awake")
        })
    }
}
