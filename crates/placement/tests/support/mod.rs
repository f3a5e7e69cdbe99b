//! A cluster without a network: the real rules, in the order of the test's calls.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use shardwright_contracts::{FenceEpoch, LogicalTime, ShardId};
use shardwright_placement::ops::{self, ReleaseReason};
use shardwright_placement::{
    ClusterConfig, Incarnation, LeaderObservations, Member, Membership, Move, NodeAddress,
    NodeInstance, Plan, PlanInput, ShardCount, ShardDuties, ShardMap, plan,
};

pub(crate) struct Cluster {
    pub(crate) config: ClusterConfig,
    pub(crate) map: ShardMap,
    pub(crate) members: Membership,
    pub(crate) loads: Option<Vec<u64>>,
    pub(crate) now: LogicalTime,
    pub(crate) observations: LeaderObservations,
    incarnations: u64,
}

pub(crate) fn node(text: &str) -> NodeAddress {
    NodeAddress::parse(text).unwrap()
}

#[allow(dead_code, reason = "each test target compiles this module for itself")]
pub(crate) fn shard(number: u64) -> ShardId {
    ShardId::from_raw(number)
}

#[allow(dead_code, reason = "each test target compiles this module for itself")]
impl Cluster {
    pub(crate) fn new(shards: u32) -> Self {
        let num_shards = ShardCount::try_new(shards).unwrap();
        Self::with(ClusterConfig::with_num_shards(num_shards))
    }

    pub(crate) fn with(config: ClusterConfig) -> Self {
        config.validate().unwrap();
        Self {
            map: ShardMap::new(config.sharding.num_shards),
            members: Membership::try_new([], LogicalTime::ZERO).unwrap(),
            loads: None,
            now: LogicalTime::ZERO,
            observations: LeaderObservations::default(),
            incarnations: 0,
            config,
        }
    }

    /// A settled cluster of nodes `n00`, `n01` and so on.
    pub(crate) fn settled(shards: u32, nodes: usize) -> Self {
        let mut cluster = Self::new(shards);
        cluster.join_numbered(0..nodes);
        cluster.settle();
        cluster
    }

    pub(crate) fn join_numbered(&mut self, numbers: std::ops::Range<usize>) {
        numbers.for_each(|number| self.join(&format!("n{number:02}")));
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now = self.now.saturating_add(millis);
    }

    pub(crate) fn join(&mut self, name: &str) {
        self.incarnations += 1;
        let member = Member::new(node(name), Incarnation::from_raw(self.incarnations));
        self.change(|members| members.push(member));
    }

    pub(crate) fn leave(&mut self, name: &str) {
        self.change(|members| members.retain(|member| member.address().as_str() != name));
    }

    /// The node restarts at once, with a new incarnation.
    pub(crate) fn restart(&mut self, name: &str) {
        self.leave(name);
        self.join(name);
    }

    pub(crate) fn drain(&mut self, name: &str) {
        self.each(name, |member| member.draining = true);
    }

    pub(crate) fn weigh(&mut self, name: &str, weight: u32) {
        self.each(name, |member| member.weight = NonZeroU32::new(weight).unwrap());
    }

    fn each(&mut self, name: &str, change: impl Fn(&mut Member)) {
        self.change(|members| {
            members.iter_mut().filter(|one| one.address().as_str() == name).for_each(change);
        });
    }

    fn change(&mut self, change: impl FnOnce(&mut Vec<Member>)) {
        let mut members: Vec<_> = self.members.iter().cloned().collect();
        change(&mut members);
        self.members = self.members.updated(members, self.now).unwrap();
    }

    pub(crate) fn input(&self) -> PlanInput<'_> {
        PlanInput {
            map: &self.map,
            members: &self.members,
            loads: self.loads.as_deref(),
            config: &self.config,
            now: self.now,
            observations: &self.observations,
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        plan(&self.input())
    }

    /// The leader plans and writes.
    pub(crate) fn step(&mut self) -> Plan {
        let plan = self.plan();
        if let Some(update) = plan.update(&self.map, self.now) {
            self.map.apply(&update).unwrap();
        }
        self.observations.saw_plan(&plan, &self.members, &self.config, self.now);
        plan
    }

    /// Every member releases and claims according to its duties. Returns the number of claimed
    /// shards.
    pub(crate) fn hand_over(&mut self) -> usize {
        self.hand_over_without("")
    }

    /// The same, but one member sleeps.
    pub(crate) fn hand_over_without(&mut self, name: &str) -> usize {
        let members: Vec<_> = self.members.iter().map(|member| member.holder.clone()).collect();
        let awake = || members.iter().filter(|holder| holder.address.as_str() != name);
        for holder in awake() {
            for shard in self.duties(holder).give_up {
                let info = self.map.info(shard).unwrap();
                let fence = info.fence.unwrap();
                let claim = ops::release(info, holder, fence, 0, ReleaseReason::Moved).unwrap();
                self.map.learn_claim(shard, &claim).unwrap();
            }
        }
        let mut claimed = 0;
        for holder in awake() {
            for shard in self.duties(holder).claim {
                let info = self.map.info(shard).unwrap();
                let claim = ops::claim(info, holder, &self.members, FenceEpoch::INITIAL).unwrap();
                self.map.learn_claim(shard, &claim).unwrap();
                self.observations.saw_claim(holder.borrowed());
                claimed += 1;
            }
        }
        claimed
    }

    fn duties(&self, holder: &NodeInstance) -> ShardDuties {
        ShardDuties::of(&self.map, holder, &self.members, FenceEpoch::INITIAL, false)
    }

    /// Plans and hands over until nothing changes. Returns every move.
    pub(crate) fn settle(&mut self) -> Vec<Move> {
        let mut moves = Vec::new();
        for _ in 0..10_000 {
            let plan = self.step();
            let claimed = self.hand_over();
            match (plan.moves.is_empty() && claimed == 0, plan.ask_again_at) {
                (true, Some(later)) => self.now = later,
                (true, None) => return moves,
                (false, _) => moves.extend(plan.moves),
            }
        }
        panic!("the cluster does not settle");
    }

    /// The number of targets per member.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts: BTreeMap<_, _> =
            self.members.iter().map(|one| (one.address().to_string(), 0)).collect();
        for info in self.map.iter() {
            if let Some(target) = info.target {
                *counts.entry(target.to_string()).or_default() += 1;
            }
        }
        counts
    }

    /// The load per member, by target.
    pub(crate) fn burdens(&self) -> BTreeMap<String, u64> {
        let mut burdens = BTreeMap::new();
        let loads = self.loads.as_deref().unwrap_or_default();
        for (info, load) in self.map.iter().zip(loads) {
            let target = info.target.unwrap().to_string();
            *burdens.entry(target).or_default() += *load;
        }
        burdens
    }

    /// The difference of the fullest and the emptiest member, in shards.
    pub(crate) fn spread(&self) -> u64 {
        let counts = self.counts();
        counts.values().max().unwrap() - counts.values().min().unwrap()
    }
}
