use shardwright_contracts::LogicalTime;

use super::*;
use crate::NodeAddress;
use crate::handover::Readiness;
use crate::member::{Member, Membership, NodeInstance};
use crate::target::TargetChange;
use crate::testing::wait_until_ready;

fn map(shards: u32) -> ShardMap {
    ShardMap::new(ShardCount::try_new(shards).unwrap())
}

fn holder(name: &str) -> NodeInstance {
    let address = NodeAddress::parse(name).unwrap();
    NodeInstance { address, incarnation: Incarnation::from_raw(1) }
}

fn members(names: &[&str]) -> Membership {
    let members = names.iter().map(|name| {
        let NodeInstance { address, incarnation } = holder(name);
        Member::new(address, incarnation)
    });
    Membership::try_new(members, LogicalTime::ZERO).unwrap()
}

fn claim(name: Option<&str>, fence: u64) -> Claim {
    Claim { holder: name.map(holder), fence: FenceEpoch::from_raw(fence).unwrap() }
}

fn target(name: &str) -> Target {
    let since = TargetSince::Placed(LogicalTime::from_millis(3));
    Target { node: Some(holder(name).address), flags: Flags::default(), since }
}

fn update(version: u64, shard: u64, name: &str) -> TargetUpdate {
    let header =
        TargetHeader { version: TargetVersion::from_raw(version), ..TargetHeader::default() };
    let shard = ShardId::from_raw(shard);
    TargetUpdate { header, changes: vec![TargetChange { shard, target: target(name) }] }
}

const FIRST: ShardId = ShardId::from_raw(0);

#[test]
fn new_map_is_empty() {
    let map = map(2);
    assert_eq!(map.iter().count(), 2);
    for info in map.iter() {
        assert_eq!((info.target, info.current, info.fence), (None, None, None));
        assert!(!info.is_settled(&members(&[])));
    }
    assert!(map.info(ShardId::from_raw(2)).is_err());
}

#[test]
fn only_the_next_version_applies() {
    let mut map = map(2);
    map.apply(&update(1, 0, "a")).unwrap();
    let (current, offered) = (TargetVersion::from_raw(1), TargetVersion::from_raw(3));
    let error = UpdateError::Version { current, offered };
    assert_eq!(map.apply(&update(3, 0, "b")), Err(error));
    assert!(map.apply(&update(1, 0, "b")).is_err());
    let mut beyond = update(2, 0, "b");
    beyond.changes.push(update(2, 2, "b").changes.remove(0));
    assert!(matches!(map.apply(&beyond), Err(UpdateError::Shard(_))));
    assert_eq!(map.info(FIRST).unwrap().target.unwrap().as_str(), "a");
    assert_eq!(map.header().version, current);
    map.apply(&update(2, 0, "b")).unwrap();
    assert_eq!(map.info(FIRST).unwrap().target.unwrap().as_str(), "b");
}

#[test]
fn claims_out_of_order_are_ordered() {
    let mut map = map(1);
    let mut learn = |claim: Claim| map.learn_claim(FIRST, &claim).unwrap();
    assert_eq!(learn(claim(Some("a"), 2)), MapChange::New);
    assert_eq!(learn(claim(Some("a"), 2)), MapChange::Old);
    assert_eq!(learn(claim(None, 2)), MapChange::New);
    assert_eq!(learn(claim(Some("a"), 2)), MapChange::Old);
    assert_eq!(learn(claim(Some("b"), 3)), MapChange::New);
    assert_eq!(learn(claim(None, 2)), MapChange::Old);
    let info = map.info(FIRST).unwrap();
    assert_eq!(info.current, Some(holder("b").borrowed()));
    assert_eq!(info.fence, FenceEpoch::from_raw(3).ok());
}

#[test]
fn target_without_a_time_keeps_the_known_time() {
    let mut map = map(1);
    let timeless = |name| Target { since: TargetSince::Unknown, ..target(name) };
    map.load_target(FIRST, &target("a")).unwrap();
    map.load_target(FIRST, &timeless("a")).unwrap();
    assert_eq!(map.info(FIRST).unwrap().since, target("a").since);
    map.load_target(FIRST, &timeless("b")).unwrap();
    assert_eq!(map.info(FIRST).unwrap().since, TargetSince::Unknown);
}

#[test]
fn map_keeps_only_names_in_use() {
    let mut map = map(2);
    for n in 2..200 {
        map.load_target(FIRST, &target(&format!("t{n}"))).unwrap();
        map.learn_claim(FIRST, &claim(Some(&format!("c{n}")), n)).unwrap();
    }
    assert_eq!(map.names().all().flatten().count(), 2);
    map.learn_claim(FIRST, &claim(None, 199)).unwrap();
    map.load_target(FIRST, &Target::default()).unwrap();
    assert_eq!(map.names().all().flatten().count(), 0);
}

#[test]
fn cluster_is_ready_when_every_target_holds_its_shard() {
    let mut states = vec![map(2)];
    let mut next = |change: &dyn Fn(&mut ShardMap)| {
        let mut state = states.last().unwrap().clone();
        change(&mut state);
        states.push(state);
    };
    next(&|map| map.load_target(FIRST, &target("a")).unwrap());
    next(&|map| {
        map.learn_claim(FIRST, &claim(Some("b"), 2)).unwrap();
        map.load_target(ShardId::from_raw(1), &target("b")).unwrap();
        map.learn_claim(ShardId::from_raw(1), &claim(Some("b"), 2)).unwrap();
    });
    let both = members(&["a", "b"]);
    let readiness = |map: &ShardMap| Readiness::of(map, &both);
    let text = |map: &ShardMap| readiness(map).to_string();
    assert_eq!(
        text(&states[1]),
        "1 shards have no target, 1 are not claimed and 0 are on another node; the first is shard 0"
    );
    let never = wait_until_ready(states.iter().map(readiness)).unwrap_err();
    assert_eq!((never.states, never.last.unwrap().elsewhere), (3, 1));
    let mut ready = states.last().unwrap().clone();
    ready.learn_claim(FIRST, &claim(Some("a"), 3)).unwrap();
    assert_eq!(text(&ready), "every shard is on its target node");
    states.push(ready);
    assert_eq!(wait_until_ready(states.iter().map(readiness)), Ok(3));
    assert!(wait_until_ready([]).is_err());
}

#[test]
fn shards_of_a_gone_node_are_unclaimed() {
    let mut map = map(2);
    for (number, name) in [(0, "a"), (1, "b")] {
        let shard = ShardId::from_raw(number);
        map.load_target(shard, &target(name)).unwrap();
        map.learn_claim(shard, &claim(Some(name), 2)).unwrap();
    }
    assert!(Readiness::of(&map, &members(&["a", "b"])).is_ready());
    let found = Readiness::of(&map, &members(&["a"]));
    assert_eq!((found.unclaimed, found.first), (1, Some(ShardId::from_raw(1))));
    // Another incarnation of the same node is another instance.
    let again = Member::new(holder("b").address, Incarnation::from_raw(2));
    let again = Membership::try_new([again], LogicalTime::ZERO).unwrap();
    assert_eq!(Readiness::of(&map, &again).unclaimed, 2);
}

#[test]
fn removed_claim_can_be_learned_again() {
    let mut map = map(1);
    map.learn_claim(FIRST, &claim(Some("a"), 5)).unwrap();
    map.forget_claim(FIRST).unwrap();
    assert_eq!((map.info(FIRST).unwrap().current, map.info(FIRST).unwrap().fence), (None, None));
    assert_eq!(map.names().all().flatten().count(), 0);
    assert_eq!(map.learn_claim(FIRST, &claim(Some("a"), 5)), Ok(MapChange::New));
    assert!(map.forget_claim(ShardId::from_raw(1)).is_err());
}

#[test]
fn release_time_survives_rewrites() {
    let mut map = map(1);
    let released_at = |map: &ShardMap| map.raw().next().unwrap().released_at;
    let at = LogicalTime::from_millis(9);
    map.load_claim(FIRST, &claim(Some("a"), 4)).unwrap();
    map.observe_release(FIRST, at).unwrap();
    assert_eq!(released_at(&map), None, "the shard has a holder");
    map.load_claim(FIRST, &claim(None, 5)).unwrap();
    map.observe_release(FIRST, at).unwrap();
    map.load_claim(FIRST, &claim(None, 8)).unwrap();
    assert_eq!(released_at(&map), Some(at));
    map.load_claim(FIRST, &claim(Some("b"), 9)).unwrap();
    assert_eq!(released_at(&map), None);
    map.load_claim(FIRST, &claim(None, 10)).unwrap();
    assert_eq!(released_at(&map), None, "a new claim clears the release time");
}
