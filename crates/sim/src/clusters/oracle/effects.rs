use std::collections::BTreeMap;

use shardwright_contracts::ShardId;

use super::ensure;
use crate::clusters::vault::Effect;
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "one writer per fence",
    "what is accepted of two nodes for one shard comes under two fences, and the fences of a shard \
     never fall",
);

/// Who wrote last to each shard, and under which fence.
#[derive(Default)]
pub(in crate::clusters) struct Effects {
    last: BTreeMap<ShardId, Effect>,
}

impl Effects {
    /// Judges what the store of objects accepted.
    pub(in crate::clusters) fn judge(&mut self, effect: Effect) -> Result<(), Finding> {
        let (shard, fence) = (effect.shard, effect.fence);
        ensure(ORACLE, fence.is_some(), || format!("shard {shard} was written without a fence"))?;
        if let Some(last) = self.last.get(&shard) {
            ensure(ORACLE, last.fence <= fence, || {
                format!("shard {shard} was written under {fence:?} after {:?}", last.fence)
            })?;
            let is_same = (last.process, last.life) == (effect.process, effect.life);
            ensure(ORACLE, is_same || last.fence < fence, || {
                format!("two nodes wrote to shard {shard} under {fence:?}: {last:?}, {effect:?}")
            })?;
        }
        self.last.insert(shard, effect);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use shardwright_contracts::FenceEpoch;

    use super::*;

    fn effect(process: usize, fence: u64) -> Effect {
        let (shard, fence) = (ShardId::from_raw(3), FenceEpoch::from_raw(fence).ok());
        Effect { process, life: 1, shard, fence }
    }

    #[test]
    fn two_nodes_under_one_fence_a_fence_that_falls_and_no_fence_are_noticed() {
        let mut effects = Effects::default();
        assert_eq!(effects.judge(effect(0, 4)), Ok(()));
        assert_eq!(effects.judge(effect(0, 4)), Ok(()));
        assert!(effects.judge(effect(1, 4)).unwrap_err().text.contains("two nodes"));
        assert_eq!(effects.judge(effect(1, 5)), Ok(()));
        assert!(effects.judge(effect(0, 4)).is_err());
        assert!(effects.judge(Effect { fence: None, ..effect(1, 5) }).is_err());
        assert!(effects.judge(Effect { life: 2, ..effect(1, 5) }).is_err(), "another life");
    }
}
