//! Other methods of placing shards on nodes. None uses the previous placement.

use std::collections::BTreeMap;

use super::routing::{fnv1a_64, mixed};

/// A placement method: the index of the node for each shard.
pub(crate) type Rival = fn(&[String], u32) -> Vec<usize>;

pub(crate) const RIVALS: [(&str, Rival); 4] = [
    ("round robin, recomputed", round_robin),
    ("ring with 100 points a node", ring),
    ("rendezvous", rendezvous),
    ("jump", jump),
];

fn hash(text: &str) -> u64 {
    mixed(fnv1a_64(text.as_bytes()))
}

fn shard_hash(shard: u32) -> u64 {
    mixed(u64::from(shard).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn round_robin(nodes: &[String], shards: u32) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..nodes.len()).collect();
    sorted.sort_by_key(|index| nodes.get(*index));
    let nodes = sorted.iter().copied().cycle();
    nodes.take(shards as usize).collect()
}

fn ring(nodes: &[String], shards: u32) -> Vec<usize> {
    let points: BTreeMap<u64, usize> = nodes
        .iter()
        .enumerate()
        .flat_map(|(index, node)| (0..100).map(move |n| (hash(&format!("{node}#{n}")), index)))
        .collect();
    (0..shards)
        .filter_map(|shard| {
            let after = points.range(shard_hash(shard)..).next();
            after.or_else(|| points.first_key_value()).map(|(_, node)| *node)
        })
        .collect()
}

fn rendezvous(nodes: &[String], shards: u32) -> Vec<usize> {
    let hashes: Vec<u64> = nodes.iter().map(|node| hash(node)).collect();
    (0..shards)
        .filter_map(|shard| {
            let score = |node: &u64| mixed(*node ^ shard_hash(shard));
            let best = hashes.iter().enumerate().max_by_key(|(_, node)| score(node));
            best.map(|(index, _)| index)
        })
        .collect()
}

/// Jump consistent hash, as published by Lamping and Veach.
fn jump(nodes: &[String], shards: u32) -> Vec<usize> {
    (0..shards)
        .map(|shard| {
            let mut key = shard_hash(shard);
            let (mut bucket, mut next) = (0, 0_u64);
            while next < nodes.len() as u64 {
                bucket = next;
                key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
                let step = f64::from(1_u32 << 31) / ((key >> 33) as f64 + 1.0);
                next = ((bucket + 1) as f64 * step) as u64;
            }
            bucket as usize
        })
        .collect()
}
