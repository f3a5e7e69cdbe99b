use proptest::prelude::*;
use rstest::rstest;
use shardwright_contracts::FenceEpoch;

use super::*;
use crate::ShardCount;
use crate::member::{Incarnation, NodeInstance};
use crate::shard_map::Claim;
use crate::shard_map::ShardMap;

fn node(text: &str) -> NodeAddress {
    NodeAddress::parse(text).unwrap()
}

fn value(target: &str, current: &str, flags: Vec<Flag>) -> SeedShard {
    SeedShard {
        target: optional(target).unwrap(),
        current: optional(current).unwrap(),
        flags: Flags::try_new(flags).unwrap(),
    }
}

/// The first three are the examples of the specification.
#[rstest]
#[case("node1:47001,node1:47001", value("node1:47001", "node1:47001", vec![]))]
#[case("node2:47001,", value("node2:47001", "", vec![]))]
#[case("node1:47001,node1:47001,f=pinned", value("node1:47001", "node1:47001", vec![Flag::Pinned]))]
#[case(",", value("", "", vec![]))]
#[case(",node1:47001", value("", "node1:47001", vec![]))]
#[case("a,b,f=hot,f=pinned", value("a", "b", vec![Flag::Other("hot".into()), Flag::Pinned]))]
#[case("a,,f=pinned,f=home=b:1", value("a", "", vec![Flag::Pinned, Flag::Home(node("b:1"))]))]
fn values_round_trip(#[case] text: &str, #[case] expected: SeedShard) {
    assert_eq!(SeedShard::parse(text), Ok(expected.clone()));
    assert_eq!(expected.to_string(), text);
}

#[rstest]
#[case("", SeedValueError::NoCurrent)]
#[case("node1:47001", SeedValueError::NoCurrent)]
#[case("a b,", SeedValueError::Target(NodeAddressError::Character { at: 1 }))]
#[case("a,b c", SeedValueError::Current(NodeAddressError::Character { at: 1 }))]
#[case("a,b,pinned", SeedValueError::NotAFlag { at: 3 })]
#[case("a,b,f=pinned,", SeedValueError::NotAFlag { at: 4 })]
#[case("a,b,f=", SeedValueError::Flag(FlagError::Empty))]
#[case("a,b,f=pinned,f=pinned", SeedValueError::Flag(FlagError::Twice))]
fn invalid_values_are_refused(#[case] text: &str, #[case] error: SeedValueError) {
    assert_eq!(SeedShard::parse(text), Err(error));
}

#[rstest]
#[case("/goverse/shard/0", SeedKey::Shard(ShardId::from_raw(0)))]
#[case("/goverse/shard/8191", SeedKey::Shard(ShardId::from_raw(8_191)))]
#[case("/goverse/nodes/node1:47001", SeedKey::Node(node("node1:47001")))]
#[case("/goverse/gates/gate1:49000", SeedKey::Gate(node("gate1:49000")))]
#[case("/goverse/leader", SeedKey::Leader)]
fn keys_round_trip(#[case] text: &str, #[case] key: SeedKey) {
    assert_eq!(SeedKey::parse("/goverse", text), Ok(key.clone()));
    assert_eq!(key.format("/goverse"), text);
}

#[rstest]
#[case("/other/shard/0", SeedKeyError::Prefix)]
#[case("/goverseshard/0", SeedKeyError::Prefix)]
#[case("/goverse", SeedKeyError::Prefix)]
#[case("/goverse/", SeedKeyError::Unknown)]
#[case("/goverse/shard", SeedKeyError::Unknown)]
#[case("/goverse/leader/x", SeedKeyError::Unknown)]
#[case("/goverse/shard/", SeedKeyError::Shard)]
#[case("/goverse/shard/01", SeedKeyError::Shard)]
#[case("/goverse/shard/+1", SeedKeyError::Shard)]
#[case("/goverse/shard/-1", SeedKeyError::Shard)]
#[case("/goverse/shard/1/2", SeedKeyError::Shard)]
#[case("/goverse/shard/4194304", SeedKeyError::Shard)]
#[case("/goverse/nodes/", SeedKeyError::Address(NodeAddressError::Empty))]
fn invalid_keys_are_refused(#[case] text: &str, #[case] error: SeedKeyError) {
    assert_eq!(SeedKey::parse("/goverse", text), Err(error));
}

#[test]
fn values_round_trip_through_the_map() {
    let mut map = ShardMap::new(ShardCount::try_new(4).unwrap());
    let texts = ["n1:1,n1:1,f=pinned", "n1:1,n2:1,f=x,f=x", "n2:1,", ","];
    for (text, shard) in texts.iter().zip(map.num_shards().shards().collect::<Vec<_>>()) {
        let value = SeedShard::parse(text).unwrap();
        map.load_target(shard, &value.to_target()).unwrap();
        let life = Incarnation::from_raw(7);
        let holder = value.current.map(|address| NodeInstance { address, incarnation: life });
        let claim = Claim { holder, fence: FenceEpoch::from_raw(12).unwrap() };
        map.learn_claim(shard, &claim).unwrap();
    }
    let written: Vec<_> = map.iter().map(|info| SeedShard::of(info).to_string()).collect();
    assert_eq!(written, texts);
}

proptest! {
    #[test]
    fn parsed_values_are_written_unchanged(text in "[a-c:,f=]{0,24}") {
        if let Ok(value) = SeedShard::parse(&text) {
            prop_assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn parsing_a_key_never_panics(key in "/p(/(shard|nodes|gates|leader)?){0,2}.{0,9}") {
        if let Ok(parsed) = SeedKey::parse("/p", &key) {
            prop_assert_eq!(parsed.format("/p"), key);
        }
    }
}
