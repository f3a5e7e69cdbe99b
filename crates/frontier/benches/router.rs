//! The time to route one id, compared with the plain method.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench may use the real world"
)]

mod support;

use std::{collections::BTreeMap, hint::black_box};

use criterion::Criterion;
use shardwright_contracts::ShardId;
use shardwright_frontier::router::{EntityId, EntityIdRange, RouterError, ShardRouter};

use self::support::{Bar, Recorder, is_measuring};

const IDS: u64 = 65_536;
const NUM_SHARDS: u16 = 1_000;

fn main() -> Result<(), RouterError> {
    let mut criterion = Criterion::default().configure_from_args();
    let mut recorder = Recorder::new();
    bench_range(&mut criterion, &mut recorder)?;
    bench_hash(&mut criterion, &mut recorder)?;
    criterion.final_summary();

    let range = "a million ranges, BTreeMap against the router";
    recorder.print_ratio(range, "range/btree_map", "range/route", Bar::AtLeast(2.0));
    let full = "hash router against the bare hash";
    recorder.print_ratio(full, "hash/route", "hash/bare", Bar::AtMost(1.5));
    let mixing = "hash router against FNV-1a without the mixing";
    recorder.print_ratio(mixing, "hash/route", "hash/bare_fnv1a", Bar::None);
    let truncated = "truncating hash router against the bare hash";
    recorder.print_ratio(truncated, "hash/route_truncated", "hash/bare_fnv1a", Bar::AtMost(1.5));
    Ok(())
}

fn bench_range(criterion: &mut Criterion, recorder: &mut Recorder) -> Result<(), RouterError> {
    let count = if is_measuring() { 1_000_000 } else { 1_000 };
    let ids = random_ids(IDS);
    let ranges = random_ranges(count);
    let map: BTreeMap<u64, ShardId> =
        ranges.iter().map(|(shard, range)| (range.start, *shard)).collect();
    let router = ShardRouter::range(ranges)?;
    let look_up = |id: EntityId| map.range(..=id.as_u64()).next_back().map(|(_, shard)| *shard);
    for id in &ids {
        assert_eq!(look_up(*id), Some(router.route(*id)));
    }

    recorder.bench(
        criterion,
        IDS,
        &mut [
            ("range/btree_map", &mut || for_each(&ids, look_up)),
            ("range/route", &mut || for_each(&ids, |id| router.route(id))),
        ],
    );
    Ok(())
}

fn bench_hash(criterion: &mut Criterion, recorder: &mut Recorder) -> Result<(), RouterError> {
    let ids = random_ids(IDS);
    let full = ShardRouter::hash(black_box(NUM_SHARDS))?;
    let truncated = ShardRouter::hash_truncated(black_box(NUM_SHARDS))?;
    for id in &ids {
        let hash = fnv1a_64(id.as_u64());
        let shards = u64::from(NUM_SHARDS);
        let scaled = (u128::from(mixed(hash)) * u128::from(shards)) >> 64;
        assert_eq!(u128::from(full.route(*id).as_raw()), scaled);
        assert_eq!(truncated.route(*id).as_raw(), hash % 65_536 % shards);
    }

    recorder.bench(
        criterion,
        IDS,
        &mut [
            ("hash/bare_fnv1a", &mut || for_each(&ids, |id| fnv1a_64(id.as_u64()))),
            ("hash/bare", &mut || for_each(&ids, |id| mixed(fnv1a_64(id.as_u64())))),
            ("hash/route", &mut || for_each(&ids, |id| full.route(id))),
            ("hash/route_truncated", &mut || for_each(&ids, |id| truncated.route(id))),
        ],
    );
    Ok(())
}

#[inline]
fn for_each<R>(ids: &[EntityId], place: impl Fn(EntityId) -> R) {
    for id in ids {
        black_box(place(*id));
    }
}

/// The baselines: the plain hashes.
#[inline]
fn mixed(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[inline]
fn fnv1a_64(value: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in value.to_le_bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

/// Numbers over the whole range, the same in every run (`SplitMix64`).
fn random_numbers() -> impl Iterator<Item = u64> {
    (1_u64..).map(|step| {
        let mut z = step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

fn random_ids(count: u64) -> Vec<EntityId> {
    random_numbers().take(count as usize).map(EntityId::from).collect()
}

/// `count` ranges of random widths that own all ids between them.
fn random_ranges(count: u64) -> Vec<(ShardId, EntityIdRange)> {
    let mut bounds: Vec<u64> = random_numbers().skip(IDS as usize).take(count as usize).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let starts = [0].into_iter().chain(bounds.iter().copied());
    let ends = bounds.iter().copied().chain([u64::MAX]);
    let ranges = starts.zip(ends).map(|(start, end)| EntityIdRange { start, end });
    (0..).map(ShardId::from_raw).zip(ranges).collect()
}
