//! A route compared with its lower bound: the bare hash and one read of an array.

use std::hint::black_box;

use criterion::Criterion;
use shardwright_contracts::LogicalTime;
use shardwright_placement::{Membership, ObjectIdRef, Route, RoutingTable, ShardHash};

use super::support::{Bar, Recorder};
use super::{Failure, members, settled, unlimited};

const IDS: u64 = 4_096;
const SHARDS: u32 = 8_192;

pub(crate) fn bench(criterion: &mut Criterion, recorder: &mut Recorder) -> Result<(), Failure> {
    let texts: Vec<String> = (0..IDS).map(|n| format!("user-{}", n * 7_919 % 100_000)).collect();
    let ids: Vec<ObjectIdRef<'_>> =
        texts.iter().map(|text| ObjectIdRef::parse(text)).collect::<Result<_, _>>()?;
    let nodes = members(100, 0)?;
    for hash in ShardHash::ALL {
        let mut config = unlimited(SHARDS)?;
        config.sharding.hash = hash;
        let map = settled(&config, &nodes)?;
        let all = Membership::try_new(nodes.iter().cloned(), LogicalTime::ZERO)?;
        let table = RoutingTable::new(&map, &all, None, &config);
        let owners: Vec<u32> = (0..SHARDS).map(|shard| shard % 100).collect();
        let count = black_box(SHARDS);
        let bare = |text: &str| match hash {
            ShardHash::Fnv1a32 => fnv1a_32(text.as_bytes()) % count,
            ShardHash::Avalanche64 => scaled(mixed(fnv1a_64(text.as_bytes())), count),
        };
        let names = ["bare", "route", "route_text"].map(|what| format!("{}/{what}", hash.name()));
        recorder.bench(
            criterion,
            IDS,
            &mut [
                (&names[0], &mut || {
                    for text in &texts {
                        black_box(owners.get(bare(text) as usize).copied());
                    }
                }),
                (&names[1], &mut || {
                    for id in &ids {
                        black_box(table.route(*id).ok().and_then(destination));
                    }
                }),
                (&names[2], &mut || {
                    for text in &texts {
                        black_box(table.route_text(text).ok().and_then(destination));
                    }
                }),
            ],
        );
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "the table is what the benchmark is run for")]
pub(crate) fn print(recorder: &Recorder) {
    for hash in ShardHash::ALL {
        let name = |what| format!("{}/{what}", hash.name());
        let label = format!("route by {} against the bare hash and an array", hash.name());
        recorder.print_ratio(&label, &name("route"), &name("bare"), Bar::AtMost(2.0));
        let label = format!("the same with parsing the id, by {}", hash.name());
        recorder.print_ratio(&label, &name("route_text"), &name("bare"), Bar::AtMost(2.0));
        if let Some(median) = recorder.median(&name("route_text")) {
            println!("    {:<26}        {:>9.1} million a second", "that is", 1e3 / median);
        }
    }
}

/// The part of a route that a caller uses.
fn destination(route: Route<'_>) -> Option<&str> {
    match route {
        Route::There { node, .. } => Some(node.as_str()),
        _ => None,
    }
}

/// The baselines: the plain hashes.
#[inline]
fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[inline]
pub(crate) fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[inline]
pub(crate) fn mixed(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[inline]
fn scaled(hash: u64, count: u32) -> u32 {
    ((u128::from(hash) * u128::from(count)) >> 64) as u32
}
