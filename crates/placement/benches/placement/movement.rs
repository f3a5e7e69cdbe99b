//! How many shards move when a node joins, and how even the result is.

use std::collections::BTreeMap;

use shardwright_contracts::LogicalTime;
use shardwright_placement::{LeaderObservations, Member, Membership, PlanInput, ShardMap, plan};

use super::rivals::RIVALS;
use super::{Failure, members, settled, unlimited};

const SHARDS: u32 = 8_192;
/// Several sets of addresses, because some methods depend on them.
const SETS: usize = 5;

#[allow(clippy::print_stdout, reason = "the table is what the benchmark is run for")]
pub(crate) fn print() -> Result<(), Failure> {
    println!("movement of {SHARDS} shards when a node joins: moved, and fullest node / mean after");
    let cases = [4, 10, 100];
    let heads = cases.map(|nodes| format!("{:>20}", format!("{nodes} to {}", nodes + 1)));
    println!("  {:<28}{}", "", heads.concat());
    let least = cases.map(|nodes| format!("{:>12.2} %      ", 100.0 / (nodes + 1) as f64));
    println!("  {:<28}{}", "least", least.concat());
    let ours = cases.map(|nodes| over_sets(|set| planned(nodes, set)));
    print_row("this planner", ours)?;
    for (name, place) in RIVALS {
        let row = cases.map(|nodes| {
            over_sets(|set| {
                let names: Vec<String> =
                    members(nodes + 1, set)?.iter().map(|one| one.address().to_string()).collect();
                let few = names.get(..nodes).unwrap_or_default();
                Ok(compare(&place(few, SHARDS), &place(&names, SHARDS), nodes + 1))
            })
        });
        print_row(name, row)?;
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "the table is what the benchmark is run for")]
fn print_row(name: &str, cells: [Result<(f64, f64), Failure>; 3]) -> Result<(), Failure> {
    let mut row = String::new();
    for cell in cells {
        let (moved, fullest) = cell?;
        row += &format!("{moved:>12.2} % {fullest:.3}");
    }
    println!("  {name:<28}{row}");
    Ok(())
}

fn over_sets(
    measure: impl Fn(usize) -> Result<(f64, f64), Failure>,
) -> Result<(f64, f64), Failure> {
    let mut sum = (0.0, 0.0);
    for set in 0..SETS {
        let (moved, fullest) = measure(set)?;
        sum = (sum.0 + moved, sum.1 + fullest);
    }
    Ok((sum.0 / SETS as f64, sum.1 / SETS as f64))
}

fn planned(nodes: usize, set: usize) -> Result<(f64, f64), Failure> {
    let config = unlimited(SHARDS)?;
    let all: Vec<Member> = members(nodes + 1, set)?;
    let few = all.get(..nodes).unwrap_or_default();
    let mut map = settled(&config, few)?;
    let before = places(&map, &all);
    let now = LogicalTime::from_millis(1_000_000);
    let members = Membership::try_new(all.iter().cloned(), LogicalTime::ZERO)?;
    let (loads, observations) = (None, &LeaderObservations::default());
    let input =
        PlanInput { map: &map, members: &members, loads, config: &config, now, observations };
    let update = plan(&input).update(&map, now).ok_or("nothing moved")?;
    map.apply(&update)?;
    Ok(compare(&before, &places(&map, &all), nodes + 1))
}

fn places(map: &ShardMap, all: &[Member]) -> Vec<usize> {
    let index: BTreeMap<_, _> =
        all.iter().enumerate().map(|(index, member)| (member.address(), index)).collect();
    map.iter().filter_map(|info| index.get(info.target?).copied()).collect()
}

/// The percentage of moved shards, and the fullest node relative to the mean.
fn compare(before: &[usize], after: &[usize], nodes: usize) -> (f64, f64) {
    let moved = before.iter().zip(after).filter(|(one, other)| one != other).count();
    let mut counts = BTreeMap::new();
    for node in after {
        *counts.entry(node).or_insert(0_u32) += 1;
    }
    let fullest = f64::from(counts.values().copied().max().unwrap_or(0));
    let mean = after.len() as f64 / nodes as f64;
    (moved as f64 * 100.0 / before.len() as f64, fullest / mean)
}
