//! From a numeric id to the one shard that owns it.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fmt::Write as _;

use shardwright_contracts::ShardId;
use shardwright_frontier::{EntityId, EntityIdRange, ShardRouter};

fn main() -> anyhow::Result<()> {
    print!("{}", routes()?);
    Ok(())
}

fn routes() -> anyhow::Result<String> {
    let mut out = String::new();
    let to = |router: &ShardRouter, id| router.route(EntityId::from(id)).as_raw();
    writeln!(out, "A router maps each id to exactly one shard, always the same.")?;

    // One shard owns all ids.
    let single = ShardRouter::single();
    writeln!(out, "single:  id 42 is in shard {}", to(&single, 42))?;

    // By hash: ids spread evenly, without boundaries to maintain.
    let hash = ShardRouter::hash(8)?;
    for id in [41, 42, 43] {
        writeln!(out, "hash:    id {id} is in shard {} of 8", to(&hash, id))?;
    }
    let mut counts = [0_u32; 8];
    for id in 0..80_000 {
        if let Some(count) = counts.get_mut(to(&hash, id) as usize) {
            *count += 1;
        }
    }
    writeln!(out, "hash:    80,000 ids: {counts:?}")?;

    // By range: you choose the boundaries. Ranges may be listed in any order.
    let range = |start, end| EntityIdRange { start, end };
    let by_range = ShardRouter::range(vec![
        (ShardId::from_raw(2), range(1_000_000, u64::MAX)),
        (ShardId::from_raw(1), range(0, 1_000_000)),
    ])?;
    for id in [999_999, 1_000_000, u64::MAX] {
        writeln!(out, "ranges:  id {id} is in shard {}", to(&by_range, id))?;
    }

    // A table with a gap or an overlap is rejected.
    let gap = [(1, range(0, 10)), (2, range(20, u64::MAX))];
    let overlap = [(1, range(0, 10)), (2, range(9, u64::MAX))];
    for table in [gap, overlap] {
        let table = table.map(|(shard, range)| (ShardId::from_raw(shard), range));
        if let Err(error) = ShardRouter::range(table.to_vec()) {
            writeln!(out, "refused: {error}")?;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn prints_each_route() -> anyhow::Result<()> {
        let expected = [
            "A router maps each id to exactly one shard, always the same.",
            "single:  id 42 is in shard 0",
            "hash:    id 41 is in shard 6 of 8",
            "hash:    id 42 is in shard 5 of 8",
            "hash:    id 43 is in shard 3 of 8",
            "hash:    80,000 ids: [10027, 9946, 10109, 9868, 10053, 10086, 9991, 9920]",
            "ranges:  id 999999 is in shard 1",
            "ranges:  id 1000000 is in shard 2",
            "ranges:  id 18446744073709551615 is in shard 2",
            "refused: no range owns the ids from 10 up to 20",
            "refused: two ranges own the ids from 9 through 9",
        ];
        assert_eq!(super::routes()?.lines().collect::<Vec<_>>(), expected);
        Ok(())
    }
}
