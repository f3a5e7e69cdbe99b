//! Properties of every plan, whatever happened before.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use shardwright_contracts::{LogicalTime, ShardId};
use shardwright_placement::{
    Claim, ClusterConfig, MoveReason, Plan, PlanInput, PlanNote, Readiness, ShardCount, ShardMap,
    Target, TargetSince, ops, plan,
};

use crate::support::{Cluster, node, shard};

const SHARDS: u32 = 48;

/// An event in a cluster of nodes `n00` to `n07`.
#[derive(Clone, Debug)]
enum Event {
    Join(usize),
    Leave(usize),
    Restart(usize),
    Drain(usize),
    Weigh(usize, u32),
    Pin(u64, Option<usize>),
    Unpin(u64),
    Move(u64, usize),
    Freeze(bool),
    Loads(Option<Vec<u64>>),
    Pass(u64),
    Step,
    /// All nodes but one hand over.
    HandOver(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let shard = 0..u64::from(SHARDS);
    prop_oneof![
        3 => (0..8_usize).prop_map(Event::Join),
        2 => (0..8_usize).prop_map(Event::Leave),
        1 => (0..8_usize).prop_map(Event::Restart),
        1 => (0..8_usize).prop_map(Event::Drain),
        1 => (0..8_usize, 1..4_u32).prop_map(|(at, weight)| Event::Weigh(at, weight)),
        1 => (shard.clone(), prop::option::of(0..8_usize)).prop_map(|(at, to)| Event::Pin(at, to)),
        1 => shard.clone().prop_map(Event::Unpin),
        1 => (shard, 0..8_usize).prop_map(|(at, to)| Event::Move(at, to)),
        1 => any::<bool>().prop_map(Event::Freeze),
        1 => loads().prop_map(Event::Loads),
        5 => (1..20_000_u64).prop_map(Event::Pass),
        8 => Just(Event::Step),
        8 => (0..10_usize).prop_map(Event::HandOver),
    ]
}

fn loads() -> impl Strategy<Value = Option<Vec<u64>>> {
    prop::option::of(prop::collection::vec(0..100_u64, SHARDS as usize))
}

fn history() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(event(), 0..60)
}

fn name(number: usize) -> String {
    format!("n{number:02}")
}

fn cluster() -> Cluster {
    let num_shards = ShardCount::try_new(SHARDS).unwrap();
    let mut cluster = Cluster::with(ClusterConfig {
        rebalance_shards_batch_size: Some(4),
        in_flight_per_node_max: 6,
        in_flight_max: 12,
        move_cooldown_ms: 15_000,
        ..ClusterConfig::with_num_shards(num_shards)
    });
    cluster.join_numbered(0..2);
    cluster
}

/// Applies an event. Returns the plan if the leader made one.
fn apply(cluster: &mut Cluster, event: &Event) -> Option<Plan> {
    let (members, now) = (cluster.members.clone(), cluster.now);
    let is_member = |at: usize| members.get(&name(at)).is_some();
    let update = match event {
        Event::Join(at) if !is_member(*at) => {
            cluster.join(&name(*at));
            None
        }
        Event::Restart(at) if is_member(*at) => {
            cluster.restart(&name(*at));
            None
        }
        Event::Join(_) | Event::Restart(_) => None,
        Event::Leave(at) => {
            cluster.leave(&name(*at));
            None
        }
        Event::Drain(at) => {
            cluster.drain(&name(*at));
            None
        }
        Event::Weigh(at, weight) => {
            cluster.weigh(&name(*at), *weight);
            None
        }
        Event::Loads(loads) => {
            cluster.loads.clone_from(loads);
            None
        }
        Event::Pass(millis) => {
            cluster.pass(*millis);
            None
        }
        Event::Step => return Some(cluster.step()),
        Event::HandOver(sleeper) => {
            cluster.hand_over_without(&name(*sleeper));
            None
        }
        Event::Pin(at, to) => {
            let to = to.map(|at| node(&name(at)));
            ops::pin(&cluster.map, &members, shard(*at), to.as_ref(), now).ok()
        }
        Event::Unpin(at) => ops::unpin(&cluster.map, shard(*at)).ok(),
        Event::Move(at, to) => {
            ops::reassign(&cluster.map, &members, shard(*at), &node(&name(*to)), now).ok()
        }
        Event::Freeze(frozen) => ops::freeze(&cluster.map, *frozen).ok(),
    };
    if let Some(update) = update {
        cluster.map.apply(&update).unwrap();
    }
    None
}

/// Lets the cluster settle: thaws it, adds a node and advances the clock.
fn heal(cluster: &mut Cluster) {
    if let Ok(update) = ops::freeze(&cluster.map, false) {
        cluster.map.apply(&update).unwrap();
    }
    if cluster.members.iter().all(|member| member.draining) {
        cluster.join("n99");
    }
    cluster.settle();
}

/// The same map, loaded in another order.
fn shuffled(map: &ShardMap) -> ShardMap {
    let mut other = ShardMap::new(map.num_shards());
    let infos: Vec<_> = map.iter().collect();
    // Names that are added first and removed again change the numbering.
    other.load_target(shard(0), &Target { node: Some(node("zz")), ..Target::default() }).unwrap();
    for info in infos.iter().rev() {
        if let Some(fence) = info.fence {
            let holder = info.current.map(shardwright_placement::NodeInstanceRef::to_holder);
            other.learn_claim(info.shard, &Claim { holder, fence }).unwrap();
        }
    }
    for info in infos.iter().rev() {
        let (node, flags) = (info.target.cloned(), info.flags.clone());
        other.load_target(info.shard, &Target { node, flags, since: info.since }).unwrap();
    }
    other.load_header(map.header());
    other
}

/// Shards in flight that count: those that had another target before.
fn in_flight(cluster: &Cluster) -> (usize, BTreeMap<String, usize>) {
    let mut per_node: BTreeMap<String, usize> = BTreeMap::new();
    let mut in_all = 0;
    for info in cluster.map.iter() {
        let TargetSince::Moved(since) = info.since else { continue };
        let holder = info.current.filter(|one| cluster.members.is_live(*one));
        let target = info
            .target
            .filter(|one| cluster.members.get(one.as_str()).is_some_and(|member| !member.draining));
        let Some(target) = target else { continue };
        // The node could claim it since it joined and the former holder left.
        let live = cluster.members.get(target.as_str()).unwrap();
        let since = since.max(cluster.members.here_since(live.holder.borrowed()).unwrap());
        let gone = info.current.filter(|one| !cluster.members.is_live(*one));
        let since = gone.map_or(since, |one| since.max(cluster.members.left_at(one)));
        let stuck = cluster.now.millis_since(since) >= cluster.config.stuck_after_ms;
        if holder.map(|one| one.address) == Some(target) || stuck {
            continue;
        }
        in_all += 1;
        for node in holder.map(|one| one.address).into_iter().chain([target]) {
            *per_node.entry(node.to_string()).or_default() += 1;
        }
    }
    (in_all, per_node)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn healed_cluster_is_claimed_and_balanced(history in history()) {
        let mut cluster = cluster();
        for event in &history {
            apply(&mut cluster, event);
        }
        heal(&mut cluster);
        prop_assert!(Readiness::of(&cluster.map, &cluster.members).is_ready());
        for info in cluster.map.iter() {
            prop_assert!(cluster.members.is_live(info.current.unwrap()));
            let target = cluster.members.get(info.target.unwrap().as_str()).unwrap();
            prop_assert!(!target.draining);
            let home = info.flags.home().and_then(|home| cluster.members.get(home.as_str()));
            prop_assert!(home.is_none_or(|home| home.draining), "a pinned shard is away");
        }
        // Nothing moves while nothing changes.
        for later in [0, 1, 10_000, 1_000_000] {
            cluster.pass(later);
            let plan = cluster.plan();
            prop_assert_eq!(&plan.moves, &[]);
            prop_assert_eq!(plan.update(&cluster.map, cluster.now), None);
        }
    }

    #[test]
    fn every_leader_makes_the_same_plan(history in history()) {
        let mut cluster = cluster();
        for event in &history {
            let other = shuffled(&cluster.map);
            let own = cluster.plan();
            let theirs = plan(&PlanInput { map: &other, ..cluster.input() });
            prop_assert_eq!(own, theirs);
            apply(&mut cluster, event);
        }
    }

    #[test]
    fn every_move_follows_the_rules(history in history()) {
        let mut cluster = cluster();
        let mut last_moved: BTreeMap<ShardId, LogicalTime> = BTreeMap::new();
        for event in &history {
            let (pinned, frozen): (BTreeSet<ShardId>, bool) = (
                cluster
                    .map
                    .iter()
                    .filter(|info| {
                        let home = info.flags.home().or(info.target);
                        info.flags.is_pinned()
                            && home == info.target
                            && home
                                .and_then(|home| cluster.members.get(home.as_str()))
                                .is_some_and(|member| !member.draining)
                    })
                    .map(|info| info.shard)
                    .collect(),
                cluster.map.header().frozen,
            );
            let (before, per_node_before) = in_flight(&cluster);
            let guard_ends = cluster.members.changed_at().saturating_add(10_000);
            let Some(plan) = apply(&mut cluster, event) else { continue };
            let mut moved = BTreeSet::new();
            let voluntary = plan.moves.iter().filter(|one| one.reason.is_voluntary()).count();
            for one in &plan.moves {
                prop_assert!(moved.insert(one.shard), "a shard moves twice");
                prop_assert!(!pinned.contains(&one.shard), "a pinned shard moves: {}", one);
                let to = cluster.members.get(one.to.as_str()).unwrap();
                prop_assert!(!to.draining, "{}", one);
                prop_assert!(one.from.as_ref() != Some(&one.to), "{}", one);
                if one.reason.is_voluntary() {
                    prop_assert!(!frozen && cluster.now >= guard_ends, "{}", one);
                    if let Some(at) = last_moved.get(&one.shard) {
                        prop_assert!(cluster.now.millis_since(*at) >= 15_000, "too soon: {}", one);
                    }
                }
                if one.reason == MoveReason::FirstPlacement {
                    prop_assert!(cluster.now >= guard_ends, "{}", one);
                } else {
                    last_moved.insert(one.shard, cluster.now);
                }
            }
            prop_assert!(voluntary == 0 || before + voluntary <= 4, "the batch is too large");
            let (in_all, per_node) = in_flight(&cluster);
            let sent = plan.moves.iter().filter(|one| {
                !matches!(one.reason, MoveReason::FirstPlacement | MoveReason::StillServed)
            });
            for one in sent {
                prop_assert!(in_all <= 12, "{} in flight", in_all);
                prop_assert!(per_node[one.to.as_str()] <= 6, "{:?}", per_node);
            }
            // Giving and receiving nodes have the same limit, unless an operator requested more
            // before.
            for (name, now) in &per_node {
                let before = per_node_before.get(name).copied().unwrap_or_default();
                prop_assert!(*now <= before.max(6), "{} had {}, has {}", name, before, now);
            }
        }
    }

    #[test]
    fn join_moves_at_most_the_newcomers_share(
        shards in 1..400_u32,
        nodes in 1..30_usize,
    ) {
        let mut cluster = Cluster::settled(shards, nodes);
        prop_assert!(cluster.spread() <= 1);
        cluster.join_numbered(nodes..nodes + 1);
        let moves = cluster.settle();
        let share = u64::from(shards).div_ceil(nodes as u64 + 1);
        prop_assert!(moves.len() as u64 <= share, "{} of {}", moves.len(), share);
        prop_assert!(moves.iter().all(|one| one.to.as_str() == name(nodes)));
        prop_assert!(cluster.spread() <= 1 || moves.is_empty());
    }

    #[test]
    fn loss_moves_exactly_the_lost_shards(
        shards in 1..400_u32,
        nodes in 2..30_usize,
        lost in 0..30_usize,
    ) {
        let mut cluster = Cluster::settled(shards, nodes);
        let gone = name(lost % nodes);
        let lost = cluster.counts()[&gone];
        cluster.leave(&gone);
        let moves = cluster.settle();
        prop_assert_eq!(moves.len() as u64, lost);
        prop_assert!(moves.iter().all(|one| one.reason == MoveReason::NodeGone));
        prop_assert!(cluster.spread() <= 1);
    }

    #[test]
    fn drain_moves_exactly_the_nodes_shards(shards in 1..400_u32, nodes in 2..30_usize) {
        let mut cluster = Cluster::settled(shards, nodes);
        let had = cluster.counts()["n00"];
        cluster.drain("n00");
        let moves = cluster.settle();
        prop_assert_eq!(moves.len() as u64, had);
        prop_assert_eq!(cluster.counts()["n00"], 0);
        cluster.leave("n00");
        prop_assert_eq!(cluster.settle(), []);
        prop_assert!(cluster.spread() <= 1);
    }

    #[test]
    fn shares_follow_weights(
        weights in prop::collection::vec(1..10_u32, 1..12),
        shards in 1..500_u32,
    ) {
        let mut cluster = Cluster::new(shards);
        cluster.join_numbered(0..weights.len());
        cluster.settle();
        for (number, weight) in weights.iter().enumerate() {
            cluster.weigh(&name(number), *weight);
        }
        cluster.config.imbalance_threshold = 0.0;
        cluster.settle();
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let counts = cluster.counts();
        let exact = |weight: u32| f64::from(shards) * f64::from(weight) / total as f64;
        let off = |number: usize| counts[&name(number)] as f64 - exact(weights[number]);
        let fair = (0..weights.len()).all(|number| off(number).abs() < 1.0);
        // A weighted difference below two shards starts no rebalance.
        let mean = total as f64 / weights.len() as f64;
        let level = |number: usize| {
            counts[&name(number)] as f64 * mean / f64::from(weights[number])
        };
        let levels = || (0..weights.len()).map(level);
        let spread = levels().fold(0.0, f64::max) - levels().fold(f64::INFINITY, f64::min);
        prop_assert!(fair || spread < 2.0, "{:?} for {:?}", counts, weights);
    }

    #[test]
    fn loads_end_near_their_shares(
        seed in prop::collection::vec(1..50_u64, 200),
        nodes in 2..8_usize,
    ) {
        let mut cluster = Cluster::settled(200, nodes);
        cluster.loads = Some(seed);
        cluster.settle();
        let burdens = cluster.burdens();
        let mean = burdens.values().sum::<u64>() as f64 / nodes as f64;
        for burden in burdens.values() {
            // Small shards fill every gap, so the wider band is always reached.
            let ratio = *burden as f64 / mean;
            prop_assert!((0.85..1.15).contains(&ratio), "{:?}", burdens);
        }
    }

    #[test]
    fn too_heavy_shard_is_reported_and_never_moves(
        loads in prop::collection::vec(1..20_u64, SHARDS as usize),
        heavy in 0..u64::from(SHARDS),
        nodes in 2..6_usize,
    ) {
        let mut cluster = Cluster::settled(SHARDS, nodes);
        let mut loads = loads;
        loads[usize::try_from(heavy).unwrap()] = 5_000;
        cluster.loads = Some(loads);
        let reported = cluster.plan().notes.into_iter().any(|note| {
            matches!(note, PlanNote::TooHeavy { shard, .. } if shard.as_raw() == heavy)
        });
        prop_assert!(reported);
        for _ in 0..100 {
            let plan = cluster.step();
            prop_assert!(plan.moves.iter().all(|one| one.shard.as_raw() != heavy));
            cluster.hand_over();
            cluster.pass(20_000);
        }
        prop_assert_eq!(cluster.plan().moves, []);
    }
}

#[test]
fn movement_is_minimal() {
    for (nodes, expected) in [(4, 1_638), (10, 744), (100, 81)] {
        let mut cluster = Cluster::new(8_192);
        cluster.config.rebalance_shards_batch_size = Some(8_192);
        cluster.config.in_flight_per_node_max = 8_192;
        cluster.config.in_flight_max = 8_192;
        cluster.join_numbered(0..nodes);
        cluster.settle();
        cluster.join_numbered(nodes..nodes + 1);
        cluster.pass(10_000);
        assert_eq!(cluster.plan().moves.len(), expected);
    }
}

/// The example of the specification: 8,192 shards on four nodes, where a fifth of 2,048 is 409.6.
#[test]
fn rebalance_starts_above_a_fifth_and_moves_64_at_a_time() {
    let mut cluster = Cluster::settled(8_192, 4);
    let of_first: Vec<ShardId> = cluster
        .map
        .iter()
        .filter(|info| info.target.is_some_and(|target| target.as_str() == "n00"))
        .map(|info| info.shard)
        .collect();
    let give = |cluster: &mut Cluster, count: usize, skip: usize| {
        for one in of_first.iter().skip(skip).take(count) {
            let (map, members) = (&cluster.map, &cluster.members);
            let update = ops::reassign(map, members, *one, &node("n01"), cluster.now).unwrap();
            cluster.map.apply(&update).unwrap();
        }
        cluster.hand_over();
    };
    give(&mut cluster, 204, 0);
    assert_eq!(cluster.spread(), 408);
    assert_eq!(cluster.plan().moves, []);
    give(&mut cluster, 1, 204);
    assert_eq!(cluster.spread(), 410);
    assert_eq!(cluster.plan().moves.len(), 64);
    cluster.settle();
    assert!(cluster.spread() <= 1);
}

#[test]
fn pinned_shard_returns_home_after_its_cooldown() {
    let mut cluster = Cluster::settled(2, 2);
    let update = ops::pin(&cluster.map, &cluster.members, shard(0), None, cluster.now).unwrap();
    cluster.map.apply(&update).unwrap();
    cluster.leave("n00");
    cluster.settle();
    cluster.join("n00");
    // Its place at home is reserved: no other shard fills it and has to leave again.
    let moves = cluster.settle();
    assert_eq!(moves.len(), 1);
    assert_eq!(moves[0].reason, MoveReason::PinnedHome);
    assert_eq!(cluster.map.info(shard(0)).unwrap().target, Some(&node("n00")));
}
