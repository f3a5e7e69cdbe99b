//! From typed keys to shards: encode, cut, hint, collect.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fmt::Write as _;

use shardwright_contracts::{ShardArena, ShardSpecRef};
use shardwright_frontier::{
    KeyBuf, KeyEncoding, MetadataBuf, PathKey, PreallocShardBuilder, ShardHint, byte_midpoint,
    decode_hint, key_successor, plan_hinted_split_residual,
};

fn main() -> anyhow::Result<()> {
    print!("{}", steps()?);
    Ok(())
}

fn steps() -> anyhow::Result<String> {
    let mut out = String::new();
    let (mut one, mut two) = (KeyBuf::new(), KeyBuf::new());
    writeln!(out, "Work is cut into shards: ranges of keys, compared byte by byte.")?;

    // Keys become bytes that sort the same way, so a shard is simply a range of bytes.
    PathKey::new("photos/2024/07").encode_into(&mut one);
    ("bob", "amy").encode_into(&mut two);
    writeln!(out, "the path photos/2024/07 as a key: {}", one.as_bytes().escape_ascii())?;
    writeln!(out, "the pair (bob, amy) as a key:     {}", two.as_bytes().escape_ascii())?;

    // Arithmetic on keys finds the successor of a key, and a midpoint between two.
    let next = key_successor(b"photos/2024", &mut one).unwrap_or_default().escape_ascii();
    writeln!(out, "the next key after photos/2024:   {next}")?;
    let middle = byte_midpoint(b"photos/a", b"photos/q", &mut two).unwrap_or_default();
    writeln!(out, "halfway from photos/a to /q:      {}", middle.escape_ascii())?;

    // A builder collects the first shards of a run and checks them as a whole.
    let mut arena = ShardArena::new(8, 4_096);
    let mut builder = PreallocShardBuilder::<8>::new(&mut arena, 8)?;
    builder.add_prefix(b"photos/", b"")?;
    builder.split_manifest_by_rows(7, 0, 1_000, 400, b"")?;
    let shards = builder.build_inputs()?;
    for shard in &shards {
        let id = shard.shard.as_raw();
        writeln!(out, "shard {id} of a new run:             {}", describe(shard.spec)?)?;
    }

    // A slow worker keeps the left part. The right part becomes a shard of its own.
    let Some(photos) = shards.first() else { anyhow::bail!("the builder staged no shard") };
    let mut metadata = [MetadataBuf::new(), MetadataBuf::new()];
    let plan = plan_hinted_split_residual(photos.spec, photos.cursor, b"photos/m", &mut metadata)?;
    writeln!(out, "shard 0 is split; it keeps:       {}", describe(plan.narrowed())?)?;
    writeln!(out, "and a new shard gets:             {}", describe(plan.residual())?)?;
    Ok(out)
}

/// Describes the range of a shard.
fn describe(spec: ShardSpecRef<'_>) -> anyhow::Result<String> {
    Ok(match decode_hint(spec)? {
        ShardHint::Prefix { prefix } => format!("every key below {}", prefix.escape_ascii()),
        ShardHint::Manifest { manifest_id, start_row, end_row } => {
            format!("rows {start_row} to {} of manifest {manifest_id}", end_row - 1)
        }
        ShardHint::Range => {
            let (start, end) = (spec.start().escape_ascii(), spec.end().escape_ascii());
            format!("keys from {start} up to {end}")
        }
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn prints_each_step() -> anyhow::Result<()> {
        let expected = [
            "Work is cut into shards: ranges of keys, compared byte by byte.",
            "the path photos/2024/07 as a key: photos/2024/07",
            r"the pair (bob, amy) as a key:     bob\x00\x01amy\x00\x01",
            r"the next key after photos/2024:   photos/2024\x00",
            "halfway from photos/a to /q:      photos/i",
            "shard 0 of a new run:             every key below photos/",
            "shard 1 of a new run:             rows 0 to 399 of manifest 7",
            "shard 2 of a new run:             rows 400 to 799 of manifest 7",
            "shard 3 of a new run:             rows 800 to 999 of manifest 7",
            "shard 0 is split; it keeps:       keys from photos/ up to photos/m",
            "and a new shard gets:             keys from photos/m up to photos0",
        ];
        assert_eq!(super::steps()?.lines().collect::<Vec<_>>(), expected);
        Ok(())
    }
}
