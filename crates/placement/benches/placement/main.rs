//! The cost of routing and planning, and how much a plan moves compared with other methods.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench may use the real world"
)]

mod movement;
mod planning;
mod rivals;
mod routing;
#[path = "../../../frontier/benches/support/mod.rs"]
mod support;

use criterion::Criterion;
use shardwright_contracts::LogicalTime;
use shardwright_placement::ops;
use shardwright_placement::{
    ClusterConfig, Incarnation, LeaderObservations, Member, Membership, NodeAddress, PlanInput,
    ShardCount, ShardMap, plan,
};

use self::support::{Recorder, is_measuring};

pub(crate) type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().configure_from_args();
    let mut recorder = Recorder::new();
    routing::bench(&mut criterion, &mut recorder)?;
    criterion.final_summary();
    routing::print(&recorder);
    if is_measuring() {
        planning::print()?;
        movement::print()?;
    }
    Ok(())
}

/// Nodes with addresses of ordinary length in no particular order.
pub(crate) fn members(count: usize, set: usize) -> Result<Vec<Member>, Failure> {
    (0..count)
        .map(|number| {
            let mixed =
                (number as u64 + 1 + 1_000_000 * set as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let address = NodeAddress::parse(&format!("node-{mixed:016x}.example:47001"))?;
            Ok(Member::new(address, Incarnation::from_raw(1)))
        })
        .collect()
}

/// A configuration in which one plan makes all moves.
pub(crate) fn unlimited(shards: u32) -> Result<ClusterConfig, Failure> {
    Ok(ClusterConfig {
        cluster_state_stability_duration_ms: 0,
        rebalance_shards_batch_size: Some(shards),
        in_flight_per_node_max: shards,
        in_flight_max: shards,
        ..ClusterConfig::with_num_shards(ShardCount::try_new(shards)?)
    })
}

/// A map in which every shard is placed and claimed.
pub(crate) fn settled(config: &ClusterConfig, members: &[Member]) -> Result<ShardMap, Failure> {
    let mut map = ShardMap::new(config.sharding.num_shards);
    let members = Membership::try_new(members.iter().cloned(), LogicalTime::ZERO)?;
    let now = LogicalTime::ZERO;
    let (loads, observations) = (None, &LeaderObservations::default());
    let input = PlanInput { map: &map, members: &members, loads, config, now, observations };
    let update = plan(&input).update(&map, now).ok_or("nothing was placed")?;
    map.apply(&update)?;
    let floor = shardwright_contracts::FenceEpoch::INITIAL;
    let mut claims = Vec::new();
    for info in map.iter() {
        let target = info.target.ok_or("a shard has no target")?;
        let holder = &members.get(target.as_str()).ok_or("a stranger")?.holder;
        claims.push((info.shard, ops::claim(info, holder, &members, floor)?));
    }
    for (shard, claim) in &claims {
        map.learn_claim(*shard, claim)?;
    }
    Ok(map)
}
