//! From typed keys to shards: encode, cut, hint, collect.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fmt::Write as _;

use shardwright_contracts::{ShardArena, plan_split_residual};
use shardwright_frontier::{
    KeyBuf, KeyEncoding, PathKey, PreallocShardBuilder, byte_midpoint, decode_hint, key_successor,
    propagate_hint_on_split,
};

fn main() -> anyhow::Result<()> {
    print!("{}", story()?);
    Ok(())
}

fn story() -> anyhow::Result<String> {
    let mut out = String::new();
    let (mut one, mut two) = (KeyBuf::new(), KeyBuf::new());

    // Keys become bytes that sort the same way, so a shard is simply a range of bytes.
    PathKey::new("photos/2024/07").encode_into(&mut one);
    (-5_i64, "b").encode_into(&mut two);
    writeln!(out, "a path as a key:      {}", one.as_bytes().escape_ascii())?;
    writeln!(out, "a tuple as a key:     {}", two.as_bytes().escape_ascii())?;

    // Arithmetic on such keys finds the next one, and a place to cut between two.
    let next = key_successor(b"photos/2024", &mut one).unwrap_or_default().escape_ascii();
    writeln!(out, "next after a key:     {next}")?;
    let middle = byte_midpoint(b"photos/a", b"photos/q", &mut two).unwrap_or_default();
    writeln!(out, "halfway from a to q:  {}", middle.escape_ascii())?;

    // A builder collects the first shards of a run and checks them as a whole.
    let mut arena = ShardArena::new(8, 4_096);
    let mut builder = PreallocShardBuilder::<8>::new(&mut arena, 8)?;
    builder.add_prefix(b"photos/", b"")?;
    builder.split_manifest_by_rows(7, 0, 1_000, 400, b"")?;
    let shards = builder.build_inputs()?;
    for shard in &shards {
        let id = shard.shard.as_raw();
        writeln!(out, "shard {id} stands for:   {:?}", decode_hint(shard.spec)?)?;
    }

    // A worker that is behind keeps the left part and leaves the right one to somebody else.
    let Some(photos) = shards.first() else { anyhow::bail!("nothing was staged") };
    let plan = plan_split_residual(photos.spec, photos.cursor, b"photos/m")?;
    let rest = plan.residual();
    let hint = propagate_hint_on_split(decode_hint(photos.spec)?, rest.start(), rest.end())?;
    let (start, end) = (rest.start().escape_ascii(), rest.end().escape_ascii());
    writeln!(out, "a split leaves:       [{start}, {end}), hint {hint:?}")?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn tells_its_story() -> anyhow::Result<()> {
        let expected = [
            r"a path as a key:      photos/2024/07",
            r"a tuple as a key:     \x7f\xff\xff\xff\xff\xff\xff\xfb\x00\x01b\x00\x01",
            r"next after a key:     photos/2024\x00",
            r"halfway from a to q:  photos/i",
            r"shard 0 stands for:   Prefix { prefix: <7 bytes> }",
            r"shard 1 stands for:   Manifest { manifest_id: 7, rows: 0..400 }",
            r"shard 2 stands for:   Manifest { manifest_id: 7, rows: 400..800 }",
            r"shard 3 stands for:   Manifest { manifest_id: 7, rows: 800..1000 }",
            r"a split leaves:       [photos/m, photos0), hint Range",
        ];
        assert_eq!(super::story()?.lines().collect::<Vec<_>>(), expected);
        Ok(())
    }
}
