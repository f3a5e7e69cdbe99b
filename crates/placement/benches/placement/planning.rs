//! The duration of a plan.

use std::hint::black_box;
use std::time::{Duration, Instant};

use shardwright_contracts::LogicalTime;
use shardwright_placement::{
    LeaderObservations, Member, Membership, PlanInput, RoutingTable, ShardMap, plan,
};

use super::{Failure, members, settled, unlimited};

const NOW: LogicalTime = LogicalTime::from_millis(1_000_000);

#[allow(clippy::print_stdout, reason = "the table is what the benchmark is run for")]
pub(crate) fn print() -> Result<(), Failure> {
    println!("plans: median and slowest of several, and how many shards move");
    for (shards, nodes, rounds, bar) in [
        (8_192, 100, 101, Duration::from_millis(5)),
        (1_000_000, 10_000, 5, Duration::from_secs(2)),
    ] {
        size(shards, nodes, rounds, bar)?;
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "the table is what the benchmark is run for")]
fn size(shards: u32, nodes: usize, rounds: usize, bar: Duration) -> Result<(), Failure> {
    println!("  {shards} shards on {nodes} nodes, bar {bar:?}");
    let config = unlimited(shards)?;
    let before = members(nodes, 0)?;
    let after = members(nodes + 1, 0)?;
    let fewer: Vec<Member> = before.iter().skip(1).cloned().collect();
    let empty = ShardMap::new(config.sharding.num_shards);
    let map = settled(&config, &before)?;
    let loads: Vec<u64> = (0..u64::from(shards)).map(|n| n * 7_919 % 100).collect();
    for (what, map, members, loads) in [
        ("first placement", &empty, &before, None),
        ("nothing to do", &map, &before, None),
        ("a node joins", &map, &after, None),
        ("a node is lost", &map, &fewer, None),
        ("uneven load", &map, &before, Some(loads.as_slice())),
    ] {
        let members = Membership::try_new(members.iter().cloned(), LogicalTime::ZERO)?;
        let (config, observations) = (&config, &LeaderObservations::default());
        let input = PlanInput { map, members: &members, loads, config, now: NOW, observations };
        let moves = plan(&input).moves.len();
        let (median, slowest) = measure(rounds, || plan(&input));
        let verdict = if median < bar { "met" } else { "MISSED" };
        println!("    {what:<18} {median:>10.2?} {slowest:>10.2?}  {moves:>8} moves  {verdict}");
    }
    let members = Membership::try_new(before, LogicalTime::ZERO)?;
    let (median, slowest) = measure(rounds, || RoutingTable::new(&map, &members, None, &config));
    println!("    {:<18} {median:>10.2?} {slowest:>10.2?}", "a routing table");
    Ok(())
}

/// The median and the slowest of some calls.
fn measure<R>(rounds: usize, work: impl Fn() -> R) -> (Duration, Duration) {
    let mut taken: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            let result = black_box(work());
            let elapsed = start.elapsed();
            drop(result);
            elapsed
        })
        .collect();
    taken.sort_unstable();
    let at = |index: usize| taken.get(index).copied().unwrap_or_default();
    (at(rounds / 2), at(rounds - 1))
}
