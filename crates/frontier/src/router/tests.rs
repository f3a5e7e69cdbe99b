//! Tests of ids, hashes and the router. The range table and the search tree have their own.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn shard(number: u64) -> ShardId {
    ShardId::from_raw(number)
}

fn route(router: &ShardRouter, id: u64) -> u64 {
    router.route(EntityId::from(id)).as_raw()
}

/// Ranges between the sorted `bounds`, owned by the shards 100, 101 and so on.
fn ranges_between(bounds: &[u64]) -> Vec<(ShardId, EntityIdRange)> {
    let starts = [0].into_iter().chain(bounds.iter().copied());
    let ends = bounds.iter().copied().chain([u64::MAX]);
    let ranges = starts.zip(ends).map(|(start, end)| EntityIdRange { start, end });
    (100..).map(shard).zip(ranges).collect()
}

/// The definition of range routing: check every range.
fn linear_scan(ranges: &[(ShardId, EntityIdRange)], id: u64) -> u64 {
    let owners: Vec<_> = ranges.iter().filter(|(_, range)| range.contains(id)).collect();
    assert_eq!(owners.len(), 1, "id {id} has {} owners", owners.len());
    owners[0].0.as_raw()
}

/// A pseudo-random sequence, the same every time (`SplitMix64`).
fn scrambled(seed: u64) -> impl Iterator<Item = u64> {
    (1_u64..).map(move |step| {
        let mut z = step.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// Sorted bounds of one to `max` ranges: anywhere, or crowded at the low end.
fn bounds(max: usize) -> impl Strategy<Value = Vec<u64>> {
    let anywhere = proptest::collection::btree_set(1..u64::MAX, 0..max);
    let crowded = proptest::collection::btree_set(1..4 * max as u64, 0..max);
    prop_oneof![anywhere, crowded].prop_map(|bounds| bounds.into_iter().collect())
}

mod single {
    use super::*;

    #[test]
    fn single_router_always_returns_shard_zero() {
        let router = ShardRouter::single();
        for id in [0, 1, 100, u64::MAX - 1, u64::MAX] {
            assert_eq!(router.route(EntityId::from(id)), ShardId::SINGLE);
            assert_eq!(route(&router, id), 0);
        }
    }

    #[test]
    fn single_router_lists_one_shard() {
        assert_eq!(ShardRouter::single().all_shards(), [ShardId::SINGLE]);
        assert!(matches!(ShardRouter::single().strategy(), RoutingStrategy::Single));
    }
}

mod hash {
    use super::*;

    /// FNV-1a of the id by its definition, independent of the code under test.
    fn hash_of(id: u64) -> u64 {
        let mut hash: u64 = 14_695_981_039_346_656_037;
        for place in 0..8 {
            hash ^= (id >> (8 * place)) & 0xff;
            hash = hash.wrapping_mul(1_099_511_628_211);
        }
        hash
    }

    /// How many of the ids `0, stride, 2 * stride, …` each shard gets.
    fn counts(num_shards: u16, ids: u64, stride: u64) -> Vec<f64> {
        let router = ShardRouter::hash(num_shards).unwrap();
        let mut counts = vec![0.0; num_shards.into()];
        for step in 0..ids {
            counts[route(&router, step * stride) as usize] += 1.0;
        }
        counts
    }

    /// The greatest distance of a count from the even share, as a part of that share.
    fn deviation(counts: &[f64]) -> f64 {
        let even = counts.iter().sum::<f64>() / counts.len() as f64;
        counts.iter().map(|count| (count - even).abs() / even).fold(0.0, f64::max)
    }

    #[test]
    fn hash_router_needs_a_shard() {
        assert_eq!(ShardRouter::hash(0).unwrap_err(), RouterError::ZeroShards);
        assert_eq!(ShardRouter::hash_truncated(0).unwrap_err(), RouterError::ZeroShards);
    }

    #[rstest]
    #[case(0, [0, 1, 483, 31_698])]
    #[case(1, [0, 1, 289, 19_001])]
    #[case(42, [0, 2, 648, 42_531])]
    #[case(u64::MAX, [0, 1, 416, 27_282])]
    fn full_hash_never_changes_a_placement(#[case] id: u64, #[case] shards: [u64; 4]) {
        let routed = [1, 4, 1_000, u16::MAX]
            .map(|num_shards| route(&ShardRouter::hash(num_shards).unwrap(), id));
        assert_eq!(routed, shards);
    }

    #[rstest]
    #[case(0, 14_789)]
    #[case(1, 61_348)]
    #[case(42, 56_047)]
    #[case(u64::MAX, 34_877)]
    fn truncated_hash_keeps_the_low_sixteen_bits(#[case] id: u64, #[case] low_bits: u64) {
        for num_shards in [1, 2, 5, 1_000, 65_535] {
            let router = ShardRouter::hash_truncated(num_shards).unwrap();
            assert_eq!(route(&router, id), low_bits % u64::from(num_shards));
        }
    }

    #[test]
    fn hash_router_lists_every_shard() {
        for num_shards in [1, 2, 3, 1_000, u16::MAX] {
            let listed: Vec<ShardId> = (0..u64::from(num_shards)).map(shard).collect();
            assert_eq!(ShardRouter::hash(num_shards).unwrap().all_shards(), listed);
            assert_eq!(ShardRouter::hash_truncated(num_shards).unwrap().all_shards(), listed);
        }
    }

    #[test]
    fn strategy_returns_the_mode_and_the_count() {
        let full = ShardRouter::hash(5).unwrap();
        assert!(
            matches!(full.strategy(), RoutingStrategy::Hash { num_shards } if num_shards.get() == 5)
        );
        let truncated = ShardRouter::hash_truncated(6).unwrap();
        assert!(matches!(
            truncated.strategy(),
            RoutingStrategy::HashTruncated { num_shards } if num_shards.get() == 6
        ));
    }

    #[rstest]
    fn few_shards_get_even_shares(
        #[values(1, 2, 3, 4, 16, 256, 1_000, 1 << 18, 1 << 20, 1 << 40, 1 << 45)] stride: u64,
    ) {
        for num_shards in 2..=16 {
            let deviation = deviation(&counts(num_shards, 10_000, stride));
            assert!(deviation < 0.15, "{num_shards} shards, stride {stride}: {deviation}");
        }
    }

    /// For random shards the chi-square statistic has the mean `df = n - 1` and the variance `2 *
    /// df`. The limit is five standard deviations above the mean.
    #[rstest]
    fn many_shards_get_random_like_shares(
        #[values(17, 31, 64, 100, 256, 257, 626, 1_000, 1_024)] num_shards: u16,
        #[values(1, 16, 1 << 40)] stride: u64,
    ) {
        let counts = counts(num_shards, 1_000 * u64::from(num_shards), stride);
        let chi_square: f64 = counts.iter().map(|count| (count - 1e3).powi(2) / 1e3).sum();
        let df = f64::from(num_shards - 1);
        assert!(chi_square < df + 5.0 * (2.0 * df).sqrt(), "chi-square {chi_square}, df {df}");
    }

    /// The limit above can be exceeded: plain FNV-1a exceeds it.
    #[test]
    fn chi_square_bound_detects_a_poor_hash() {
        let mut counts = [0.0_f64; 626];
        for id in 0..626_000 {
            counts[(hash_of(id) % 626) as usize] += 1.0;
        }
        let chi_square: f64 = counts.iter().map(|count| (count - 1e3).powi(2) / 1e3).sum();
        assert!(chi_square > 625.0 + 5.0 * 1_250.0_f64.sqrt(), "{chi_square}");
    }

    proptest! {
        #[test]
        fn hash_routing_is_deterministic(id: u64) {
            let entity = EntityId::from(id);
            let router = ShardRouter::hash(5).unwrap();
            prop_assert_eq!(router.route(entity), router.route(entity));
            prop_assert_eq!(router.route(entity), router.clone().route(entity));
            prop_assert_eq!(router.route(entity), ShardRouter::hash(5).unwrap().route(entity));
        }

        #[test]
        fn hash_routing_stays_in_range(id: u64, num_shards in 1..=u16::MAX) {
            prop_assert!(route(&ShardRouter::hash(5).unwrap(), id) < 5);
            let full = ShardRouter::hash(num_shards).unwrap();
            prop_assert!(route(&full, id) < u64::from(num_shards));
            let truncated = ShardRouter::hash_truncated(num_shards).unwrap();
            prop_assert!(route(&truncated, id) < u64::from(num_shards));
        }

        #[test]
        fn truncated_routing_is_the_remainder_of_the_low_bits(id: u64, num_shards in 1..=u16::MAX) {
            let n = u64::from(num_shards);
            let truncated = ShardRouter::hash_truncated(num_shards).unwrap();
            prop_assert_eq!(route(&truncated, id), hash_of(id) % 65_536 % n);
        }
    }
}

mod range {
    use super::*;

    fn error(ranges: &[(u64, u64, u64)]) -> RouterError {
        let build = |ranges: Vec<_>| ShardRouter::range(ranges).unwrap_err();
        let ranges: Vec<_> = ranges
            .iter()
            .map(|&(number, start, end)| (shard(number), EntityIdRange { start, end }))
            .collect();
        let reversed = ranges.iter().rev().copied().collect();
        let error = build(ranges);
        assert_eq!(build(reversed), error, "the order of the list changed the error");
        error
    }

    #[test]
    fn range_router_validates_gap() {
        let result = ShardRouter::range(vec![
            (shard(0), EntityIdRange { start: 0, end: 1_000 }),
            (shard(1), EntityIdRange { start: 2_000, end: u64::MAX }),
        ]);
        assert_eq!(result.unwrap_err(), RouterError::Gap { expected: 1_000, found: 2_000 });
    }

    #[rstest]
    #[case::nothing(&[], RouterError::EmptyRanges)]
    #[case::gap_before_the_first(&[(0, 1, u64::MAX)], RouterError::Gap { expected: 0, found: 1 })]
    #[case::gap_of_one_id(
        &[(0, 0, 10), (1, 11, u64::MAX)],
        RouterError::Gap { expected: 10, found: 11 },
    )]
    #[case::the_last_id_alone(
        &[(0, u64::MAX, u64::MAX)],
        RouterError::Gap { expected: 0, found: u64::MAX },
    )]
    #[case::empty(&[(0, 0, 10), (1, 10, 10)], RouterError::EmptyRange { start: 10 })]
    #[case::empty_at_zero(&[(0, 0, 0), (1, 0, u64::MAX)], RouterError::EmptyRange { start: 0 })]
    #[case::backwards(
        &[(0, 0, 10), (1, 5, 3), (2, 10, u64::MAX)],
        RouterError::EmptyRange { start: 5 },
    )]
    #[case::overlap_of_one_id(
        &[(0, 0, 10), (1, 9, u64::MAX)],
        RouterError::Overlap { first: 9, last: 9 },
    )]
    #[case::one_inside_another(
        &[(0, 0, 100), (1, 20, 30), (2, 100, u64::MAX)],
        RouterError::Overlap { first: 20, last: 29 },
    )]
    #[case::the_same_twice(
        &[(0, 0, u64::MAX), (1, 0, u64::MAX)],
        RouterError::Overlap { first: 0, last: u64::MAX },
    )]
    #[case::overlap_in_the_last_id(
        &[(0, 0, u64::MAX), (1, u64::MAX, u64::MAX)],
        RouterError::Overlap { first: u64::MAX, last: u64::MAX },
    )]
    #[case::short(&[(0, 0, 10), (1, 10, 20)], RouterError::IncompleteCoverage { ends_at: 20 })]
    #[case::short_by_the_least_there_is(
        &[(0, 0, u64::MAX - 1)],
        RouterError::IncompleteCoverage { ends_at: u64::MAX - 1 },
    )]
    #[case::shard_twice(
        &[(7, 0, 10), (8, 10, 20), (7, 20, u64::MAX)],
        RouterError::DuplicateShard { shard: shard(7) },
    )]
    fn every_fault_has_its_own_error(
        #[case] ranges: &[(u64, u64, u64)],
        #[case] expected: RouterError,
    ) {
        assert_eq!(error(ranges), expected);
    }

    #[rstest]
    #[case::gap_before_empty(&[(0, 5, 5)], RouterError::Gap { expected: 0, found: 5 })]
    #[case::empty_before_overlap(
        &[(0, 0, 10), (1, 4, 4), (2, 6, u64::MAX)],
        RouterError::EmptyRange { start: 4 },
    )]
    #[case::lower_overlap_before_higher_gap(
        &[(0, 0, 10), (1, 8, 20), (2, 30, u64::MAX)],
        RouterError::Overlap { first: 8, last: 9 },
    )]
    #[case::lower_gap_before_higher_overlap(
        &[(0, 0, 10), (1, 11, 20), (2, 19, u64::MAX)],
        RouterError::Gap { expected: 10, found: 11 },
    )]
    #[case::gap_before_missing_end(
        &[(0, 0, 10), (1, 11, 20)],
        RouterError::Gap { expected: 10, found: 11 },
    )]
    #[case::overlap_before_missing_end(
        &[(0, 0, 10), (1, 9, 20)],
        RouterError::Overlap { first: 9, last: 9 },
    )]
    #[case::missing_end_before_duplicate(
        &[(7, 0, 10), (7, 10, 20)],
        RouterError::IncompleteCoverage { ends_at: 20 },
    )]
    #[case::overlap_before_duplicate(
        &[(7, 0, u64::MAX), (7, 0, u64::MAX)],
        RouterError::Overlap { first: 0, last: u64::MAX },
    )]
    #[case::the_lowest_duplicate(
        &[(9, 0, 1), (9, 1, 2), (5, 2, 3), (5, 3, u64::MAX)],
        RouterError::DuplicateShard { shard: shard(5) },
    )]
    fn first_documented_fault_is_reported(
        #[case] ranges: &[(u64, u64, u64)],
        #[case] expected: RouterError,
    ) {
        assert_eq!(error(ranges), expected);
    }

    #[test]
    fn errors_read_as_lowercase_phrases() {
        let texts = [
            (error(&[]), "a range router needs at least one range"),
            (error(&[(0, 1, u64::MAX)]), "no range owns the ids from 0 up to 1"),
            (error(&[(0, 0, 0)]), "the range starting at 0 holds no ids"),
            (error(&[(0, 0, 9), (1, 5, 9)]), "two ranges own the ids from 5 through 8"),
            (error(&[(0, 0, 9)]), "no range owns the ids from 9 to the end"),
            (
                error(&[(7, 0, 9), (7, 9, u64::MAX)]),
                "shard 0000000000000007 owns more than one range",
            ),
            (RouterError::ZeroShards, "a hash router needs at least one shard"),
        ];
        for (error, text) in texts {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn one_full_range_owns_everything() {
        let router = ShardRouter::range(vec![(shard(9), EntityIdRange::full())]).unwrap();
        for id in [0, 1, u64::MAX - 1, u64::MAX] {
            assert_eq!(route(&router, id), 9);
        }
        assert_eq!(router.all_shards(), [shard(9)]);
    }

    #[test]
    fn boundary_belongs_to_the_range_that_starts_there() {
        let router = ShardRouter::range(ranges_between(&[10, 20, u64::MAX - 1])).unwrap();
        let expected = [
            (0, 100),
            (9, 100),
            (10, 101),
            (19, 101),
            (20, 102),
            (u64::MAX - 2, 102),
            (u64::MAX - 1, 103),
            (u64::MAX, 103),
        ];
        for (id, owner) in expected {
            assert_eq!(route(&router, id), owner, "id {id}");
        }
    }

    #[test]
    fn range_router_lists_shards_in_ascending_order() {
        let range = |start, end| EntityIdRange { start, end };
        let router = ShardRouter::range(vec![
            (shard(30), range(0, 10)),
            (shard(u64::MAX), range(20, u64::MAX)),
            (shard(2), range(10, 20)),
        ])
        .unwrap();
        assert_eq!(router.all_shards(), [shard(2), shard(30), shard(u64::MAX)]);
    }

    #[test]
    fn strategy_returns_the_ranges_in_order() {
        let ranges = ranges_between(&[10, 20, u64::MAX - 1]);
        let router = ShardRouter::range(ranges.iter().rev().copied().collect()).unwrap();
        let RoutingStrategy::Range(table) = router.strategy() else {
            panic!("not a range strategy: {router:?}");
        };
        assert_eq!(table.ranges().collect::<Vec<_>>(), ranges);
        assert_eq!(format!("{table:?}"), "RangeTable(4 ranges)");
    }

    #[test]
    fn cloning_and_routing_do_not_allocate() {
        let bounds: Vec<u64> = (1..10_000).map(|i| i * 1_000).collect();
        let router = ShardRouter::range(ranges_between(&bounds)).unwrap();
        let mut owners = [0; 3];
        let measured = allocation_counter::measure(|| {
            let clone = router.clone();
            owners = [0, 5_000_999, u64::MAX].map(|id| route(&clone, id));
        });
        // A clone that allocates nothing shares the original's storage.
        assert_eq!(measured.count_total, 0);
        assert_eq!(owners, [100, 5_100, 10_099]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn ids_of_each_range_go_to_its_owner(bounds in bounds(8), seed: u64) {
            let ranges = ranges_between(&bounds);
            let router = ShardRouter::range(ranges.clone()).unwrap();
            for (owner, range) in &ranges {
                let last = if range.end == u64::MAX { u64::MAX } else { range.end - 1 };
                let inside = |id: u64| match (last - range.start).checked_add(1) {
                    Some(width) => range.start + id % width,
                    None => id,
                };
                let edges = [range.start, last];
                for id in edges.into_iter().chain(scrambled(seed).take(10_000).map(inside)) {
                    prop_assert_eq!(router.route(EntityId::from(id)), *owner, "id {}", id);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn routing_agrees_with_a_linear_scan(bounds in bounds(150), ids: [u64; 8]) {
            let ranges = ranges_between(&bounds);
            let router = ShardRouter::range(ranges.clone()).unwrap();
            let edges = bounds.iter().flat_map(|bound| [bound - 1, *bound, bound + 1]);
            for id in ids.into_iter().chain(edges).chain([0, u64::MAX]) {
                prop_assert_eq!(route(&router, id), linear_scan(&ranges, id), "id {}", id);
            }
        }

        #[test]
        fn routing_ignores_the_list_order(bounds in bounds(80), seed: u64, ids: [u64; 8]) {
            let ranges = ranges_between(&bounds);
            let mut keyed: Vec<_> = scrambled(seed).zip(ranges.clone()).collect();
            keyed.sort_unstable_by_key(|(key, _)| *key);
            let shuffled = keyed.into_iter().map(|(_, range)| range).collect();
            let one = ShardRouter::range(ranges).unwrap();
            let other = ShardRouter::range(shuffled).unwrap();
            for id in ids.into_iter().chain(bounds).chain([0, u64::MAX]) {
                prop_assert_eq!(route(&one, id), route(&other, id), "id {}", id);
            }
            prop_assert_eq!(one.all_shards(), other.all_shards());
        }
    }
}

mod every_strategy {
    use super::*;

    fn routers() -> [ShardRouter; 4] {
        [
            ShardRouter::single(),
            ShardRouter::hash(7).unwrap(),
            ShardRouter::hash_truncated(7).unwrap(),
            ShardRouter::range(ranges_between(&[10, 1 << 40])).unwrap(),
        ]
    }

    #[test]
    fn last_id_has_one_owner() {
        let owners = routers().map(|router| {
            let owner = router.route(EntityId::from(u64::MAX));
            assert_eq!(router.all_shards().iter().filter(|shard| **shard == owner).count(), 1);
            owner.as_raw()
        });
        assert_eq!(owners, [0, 2, 34_877 % 7, 102]);
    }

    #[test]
    fn routers_may_be_shared_among_threads() {
        fn check<T: Send + Sync + 'static>() {}
        check::<ShardRouter>();
    }

    proptest! {
        #[test]
        fn routing_is_a_pure_function_into_the_listed_shards(id: u64) {
            for (router, again) in routers().into_iter().zip(routers()) {
                let entity = EntityId::from(id);
                let owner = router.route(entity);
                prop_assert_eq!(router.route(entity), owner);
                prop_assert_eq!(router.clone().route(entity), owner);
                prop_assert_eq!(again.route(entity), owner);
                prop_assert!(router.all_shards().contains(&owner));
            }
        }
    }
}

const fn range(start: u64, end: u64) -> EntityIdRange {
    EntityIdRange { start, end }
}

#[test]
fn entity_id_returns_its_number() {
    for raw in [0, 42, u64::MAX] {
        assert_eq!(EntityId::from(raw).as_u64(), raw);
    }
}

#[rstest]
#[case::before_the_start(range(10, 20), 9, false)]
#[case::the_start(range(10, 20), 10, true)]
#[case::the_last_inside(range(10, 20), 19, true)]
#[case::the_end(range(10, 20), 20, false)]
#[case::past_the_end(range(10, 20), u64::MAX, false)]
#[case::empty_at_its_own_start(range(10, 10), 10, false)]
#[case::backwards(range(20, 10), 15, false)]
#[case::the_last_id_under_an_open_end(range(10, u64::MAX), u64::MAX, true)]
#[case::the_id_before_it(range(10, u64::MAX), u64::MAX - 1, true)]
#[case::before_the_start_of_an_open_end(range(10, u64::MAX), 9, false)]
#[case::the_last_id_alone(range(u64::MAX, u64::MAX), u64::MAX, true)]
#[case::beside_the_last_id_alone(range(u64::MAX, u64::MAX), u64::MAX - 1, false)]
#[case::one_short_of_open(range(10, u64::MAX - 1), u64::MAX - 1, false)]
#[case::the_first_id_of_all(EntityIdRange::full(), 0, true)]
#[case::the_last_id_of_all(EntityIdRange::full(), u64::MAX, true)]
fn range_contains_exactly_its_ids(
    #[case] range: EntityIdRange,
    #[case] id: u64,
    #[case] held: bool,
) {
    assert_eq!(range.contains(id), held);
}

#[rstest]
#[case::one_id(range(10, 11), Some(10))]
#[case::several(range(10, 20), Some(19))]
#[case::nothing(range(10, 10), None)]
#[case::nothing_at_zero(range(0, 0), None)]
#[case::backwards(range(20, 10), None)]
#[case::everything(EntityIdRange::full(), Some(u64::MAX))]
#[case::the_last_id_alone(range(u64::MAX, u64::MAX), Some(u64::MAX))]
#[case::one_short_of_open(range(10, u64::MAX - 1), Some(u64::MAX - 2))]
fn nonempty_range_has_a_last_id(#[case] range: EntityIdRange, #[case] last: Option<u64>) {
    assert_eq!(range.last(), last);
    assert_eq!(range.is_empty(), last.is_none());
}

#[rstest]
#[case(range(0, 1))]
#[case(range(10, 20))]
#[case(range(10, u64::MAX - 1))]
#[case(range(10, u64::MAX))]
#[case(EntityIdRange::full())]
fn bounds_round_trip_through_the_inclusive_form(#[case] range: EntityIdRange) {
    let last = range.last().unwrap();
    assert_eq!(EntityIdRange::through(range.start, last), range);
}

#[cfg(feature = "serde")]
mod json {
    use super::*;

    #[test]
    fn range_serializes_as_two_numbers() {
        let text = serde_json::to_string(&range(0, 1000)).unwrap();
        assert_eq!(text, r#"{"start":0,"end":1000}"#);
    }

    #[test]
    fn range_serialization_round_trips() {
        for range in [range(0, 0), range(7, 9), range(u64::MAX, u64::MAX), range(9, 7)] {
            let text = serde_json::to_string(&range).unwrap();
            assert_eq!(serde_json::from_str::<EntityIdRange>(&text).unwrap(), range);
        }
    }

    #[test]
    fn stored_full_range_covers_the_last_id() {
        let stored = r#"{"start":0,"end":18446744073709551615}"#;
        let range: EntityIdRange = serde_json::from_str(stored).unwrap();
        assert_eq!(range, EntityIdRange::full());
        assert!(range.contains(u64::MAX));
    }
}

#[rstest]
#[case(0, 0xa8c7_f832_281a_39c5)]
#[case(1, 0x89cd_3129_1d2a_efa4)]
#[case(42, 0xff3a_dd6b_3789_daef)]
#[case(1_000, 0xad63_2382_5fa7_66dc)]
#[case(1 << 32, 0x08cd_4c29_d1e4_7d34)]
#[case(u64::MAX - 1, 0xfc1a_3522_5397_861c)]
#[case(u64::MAX, 0x8cf5_1a8b_fca3_883d)]
fn hashes_are_the_published_fnv1a(#[case] id: u64, #[case] hash: u64) {
    assert_eq!(fnv1a_64(id), hash);
}

/// Computed separately from the published definitions of both functions.
#[rstest]
#[case(0, 0x7bd3_144f_29c0_cc9e)]
#[case(1, 0x4a3a_3a4b_a652_3826)]
#[case(42, 0xa624_5a5d_cf27_8758)]
#[case(u64::MAX, 0x6a92_c022_8678_c02e)]
fn avalanched_hashes_never_change(#[case] id: u64, #[case] hash: u64) {
    assert_eq!(avalanched(id), hash);
}

#[test]
fn avalanched_hash_flips_half_the_bits() {
    for bit in 0..64 {
        let changed: u32 = (0..256_u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .map(|id| (avalanched(id) ^ avalanched(id ^ (1 << bit))).count_ones())
            .sum();
        let mean = f64::from(changed) / 256.0;
        assert!((mean - 32.0).abs() < 1.5, "bit {bit}: {mean}");
    }
}

#[test]
fn scaling_reaches_exactly_all_numbers_below_the_count() {
    for count in [1, 2, 3, 1_000, u16::MAX] {
        let wide = u64::from(count);
        assert_eq!((scaled(0, count), scaled(u64::MAX, count)), (0, wide - 1));
        for number in 0..wide {
            // The first hash of each share, and the last one of the share before.
            let first = ((u128::from(number) << 64).div_ceil(u128::from(count))) as u64;
            assert_eq!(scaled(first, count), number);
            assert_eq!(scaled(first.wrapping_sub(1), count), (number + wide - 1) % wide);
        }
    }
}
