use shardwright_contracts::LogicalTime;

use super::*;
use crate::config::ClusterConfig;
use crate::flags::Flags;
use crate::member::{Incarnation, Member, Membership, NodeInstance};
use crate::shard_map::ShardMap;
use crate::sharding::ShardCount;
use crate::target::{Target, TargetSince};
use crate::{Claim, ShardHash};

fn holder(name: &str, life: u64) -> NodeInstance {
    let address = NodeAddress::parse(name).unwrap();
    NodeInstance { address, incarnation: Incarnation::from_raw(life) }
}

struct Scene {
    map: ShardMap,
    members: Membership,
    config: ClusterConfig,
}

/// The target of a shard, and its claim, if there ever was one.
type Known = (Option<&'static str>, Option<Option<(&'static str, u64)>>);

/// Nodes `a` and `b` are members in their first incarnation, with these shards.
fn scene(shards: &[Known]) -> Scene {
    let num_shards = ShardCount::try_new(u32::try_from(shards.len()).unwrap()).unwrap();
    let mut map = ShardMap::new(num_shards);
    for ((target, claim), shard) in shards.iter().zip(num_shards.shards()) {
        let node = target.map(|name| holder(name, 1).address);
        let target = Target { node, flags: Flags::default(), since: TargetSince::Unknown };
        map.load_target(shard, &target).unwrap();
        if let Some(current) = claim {
            let holder = current.map(|(name, life)| holder(name, life));
            let fence = FenceEpoch::from_raw(10 + shard.as_raw()).unwrap();
            map.learn_claim(shard, &Claim { holder, fence }).unwrap();
        }
    }
    let member = |name| Member::new(holder(name, 1).address, Incarnation::from_raw(1));
    let members = Membership::try_new([member("a"), member("b")], LogicalTime::ZERO).unwrap();
    Scene { map, members, config: ClusterConfig::with_num_shards(num_shards) }
}

impl Scene {
    fn table(&self, own: Option<&NodeInstance>) -> RoutingTable {
        RoutingTable::new(&self.map, &self.members, own, &self.config)
    }
}

fn explained(table: &RoutingTable, shard: u64) -> String {
    table.route_text(&format!("shard#{shard}/x")).unwrap().to_string()
}

const HOLD_SOON: &str = "the call is held until the route changes, checked at least every 50 ms";
const HOLD: &str = "the call is held until the route changes, checked at least every 5000 ms";

#[test]
fn calls_go_to_the_holder_during_a_move() {
    let scene = scene(&[
        (Some("a"), Some(Some(("a", 1)))),
        (Some("b"), Some(Some(("a", 1)))),
        (Some("c"), Some(Some(("a", 1)))),
        (None, Some(Some(("a", 1)))),
    ]);
    let (gate, a, b) =
        (scene.table(None), scene.table(Some(&holder("a", 1))), scene.table(Some(&holder("b", 1))));
    for shard in 0..4 {
        assert_eq!(explained(&gate, shard), "a serves it");
        assert_eq!(explained(&a, shard), "this node serves it");
        assert_eq!(explained(&b, shard), "a serves it");
        let id = ShardId::from_raw(shard);
        assert_eq!(gate.fence(id).unwrap().as_raw(), 10 + shard);
    }
    let target = |shard| gate.target(ShardId::from_raw(shard)).map(NodeAddress::as_str);
    assert_eq!([target(0), target(1), target(2), target(3)], [Some("a"), Some("b"), None, None]);
}

#[test]
fn shard_between_two_holders_is_moving() {
    let table = scene(&[(Some("b"), Some(None))]).table(None);
    let route = table.route_text("shard#0/x").unwrap();
    assert!(matches!(route, Route::Moving { to, .. } if to.as_str() == "b"));
    assert_eq!(route.retry(), Some(Retry::Hold { at_most_ms: 50 }));
}

#[test]
fn shard_without_a_holder_is_unclaimed() {
    let scene =
        scene(&[(None, None), (Some("a"), None), (None, Some(None)), (Some("c"), Some(None))]);
    let table = scene.table(None);
    for shard in 0..4 {
        assert_eq!(explained(&table, shard), format!("no node has claimed it; {HOLD}"));
    }
}

#[test]
fn holder_of_another_incarnation_is_gone() {
    let scene = scene(&[
        (Some("c"), Some(Some(("c", 1)))),
        (Some("a"), Some(Some(("c", 1)))),
        (Some("a"), Some(Some(("a", 7)))),
    ]);
    // A restarted node does not serve the shards of its former incarnation.
    for table in [scene.table(None), scene.table(Some(&holder("a", 1)))] {
        assert_eq!(explained(&table, 0), format!("c held it and is gone; {HOLD}"));
        assert_eq!(explained(&table, 1), format!("c held it and is gone; {HOLD_SOON}"));
        assert_eq!(explained(&table, 2), format!("a held it and is gone; {HOLD_SOON}"));
    }
}

#[test]
fn earlier_incarnation_does_not_serve() {
    let scene = scene(&[(Some("a"), Some(Some(("a", 1))))]);
    let zombie = scene.table(Some(&holder("a", 0)));
    assert_eq!(explained(&zombie, 0), "a serves it");
    assert_eq!(zombie.route_text("a/x").unwrap().to_string(), "a serves it");
}

#[test]
fn node_objects_are_routed_to_members_only() {
    let table = scene(&[(None, None)]).table(Some(&holder("a", 1)));
    assert_eq!(table.route_text("a/x"), Ok(Route::Here { shard: None }));
    assert!(matches!(table.route_text("b/x"), Ok(Route::There { shard: None, .. })));
    let gone = table.route_text("10.6.6.6:1/x").unwrap();
    assert!(matches!(gone, Route::NodeGone { shard: None, node: "10.6.6.6:1", .. }));
    assert_eq!(gone.retry(), Some(Retry::Fail { after_ms: 5_000 }));
}

#[test]
fn a_shard_has_the_route_of_its_objects() {
    let scene = scene(&[(Some("a"), Some(Some(("a", 1)))), (Some("b"), Some(None)), (None, None)]);
    let table = scene.table(None);
    for raw in 0..3 {
        let (id, shard) = (format!("shard#{raw}/x"), ShardId::from_raw(raw));
        assert_eq!(table.route_shard(shard), Ok(table.route_text(&id).unwrap()));
    }
    let beyond = ShardOutOfRange { shard: 3, num_shards: 3 };
    assert_eq!(table.route_shard(ShardId::from_raw(3)), Err(beyond));
    let explained = table.explain_shard(ShardId::from_raw(0)).unwrap();
    assert_eq!(explained.to_string(), "shard 0 of 3: a serves it; its fence is 10");
}

#[test]
fn strict_mode_fails_unowned_calls_at_once() {
    let mut scene = scene(&[(Some("b"), Some(None)), (Some("b"), Some(Some(("a", 1))))]);
    scene.config.strict = true;
    let table = scene.table(None);
    let retry = table.route_text("shard#0/x").unwrap().retry();
    assert_eq!(retry, Some(Retry::Fail { after_ms: 50 }));
    assert_eq!(explained(&table, 1), "a serves it");
}

#[test]
fn invalid_ids_are_refused() {
    let table = scene(&[(None, None)]).table(None);
    assert_eq!(table.route_text(""), Err(RouteError::Id(ObjectIdError::Empty)));
    let beyond = RouteError::Shard(ShardOutOfRange { shard: 1, num_shards: 1 });
    assert_eq!(table.route_text("shard#1/x"), Err(beyond));
}

#[test]
fn ids_use_the_clusters_hash() {
    let shards = vec![(Some("a"), Some(Some(("a", 1)))); 64];
    for hash in ShardHash::ALL {
        let mut scene = scene(&shards);
        scene.config.sharding.hash = hash;
        let table = scene.table(None);
        let shard = table.route_text("user-12345").unwrap().shard().unwrap();
        assert_eq!(shard, table.sharding().hashed("user-12345"));
        assert_eq!(shard.as_raw(), if hash == ShardHash::Fnv1a32 { 48 } else { 47 });
    }
}

#[test]
fn table_is_independent_of_its_map() {
    let mut scene = scene(&[(Some("b"), Some(Some(("a", 1))))]);
    let table = scene.table(None);
    let claim = Claim { holder: None, fence: FenceEpoch::from_raw(10).unwrap() };
    scene.map.learn_claim(ShardId::from_raw(0), &claim).unwrap();
    assert_eq!(explained(&table, 0), "a serves it");
    assert!(explained(&scene.table(None), 0).contains("b is about to claim it"));
}
