use std::collections::BTreeMap;

use shardwright_contracts::{CanonicalBytes, CanonicalSink, InvariantViolation, LogicalTime};
use shardwright_engine::codec::{
    DecodeError, DecodeProblem, Field, List, ReadFields, Reader, Record, RecordKind,
};
use shardwright_placement::limits::{MAX_FLAGS, MAX_NUM_SHARDS, MAX_TARGET_CHUNKS};
use shardwright_placement::{Flag, Flags, NodeAddress, Target, TargetSince};

use super::ClusterProtocol;

/// Most shards per chunk.
const SHARDS_MAX: usize = MAX_NUM_SHARDS.div_ceil(MAX_TARGET_CHUNKS) as usize;
/// Fewest bytes of a target: no node, an unknown time, no flags.
const TARGET_BYTES: usize = 1 + 1 + 4;

const NAMED_TWICE: InvariantViolation = InvariantViolation("a chunk names each node once");
const OUT_OF_TURN: InvariantViolation =
    InvariantViolation("a chunk names nodes in the order in which shards need them");

/// Targets of consecutive shards of a cluster. The key has the number of the chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetChunkRecord {
    /// The targets, in order of shards.
    pub targets: Vec<Target>,
}

impl Record for TargetChunkRecord {
    const KIND: RecordKind = RecordKind::TargetChunk;
}

impl CanonicalBytes for TargetChunkRecord {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        // Many shards share few nodes: each name is stored once and then referred to by number.
        let mut numbers = BTreeMap::new();
        let mut names = Vec::new();
        for node in self.targets.iter().filter_map(|target| target.node.as_ref()) {
            numbers.entry(node).or_insert_with(|| {
                names.push(node);
                // There are fewer names than shards.
                u32::try_from(names.len() - 1).unwrap_or(u32::MAX)
            });
        }
        sink.put_len(names.len());
        names.iter().for_each(|name| sink.put_bytes(name.as_str().as_bytes()));
        sink.put_len(self.targets.len());
        for Target { node, flags, since } in &self.targets {
            let number = node.as_ref().and_then(|node| numbers.get(node).copied());
            Field::<ClusterProtocol>::put(&number, sink);
            let (tag, time) = match since {
                TargetSince::Unknown => (0, None),
                TargetSince::Placed(time) => (1, Some(time)),
                TargetSince::Moved(time) => (2, Some(time)),
            };
            sink.put_u8(tag);
            time.into_iter().for_each(|time| time.write_canonical(sink));
            sink.put_len(flags.iter().len());
            flags.iter().for_each(|flag| sink.put_bytes(flag.to_string().as_bytes()));
        }
    }
}

impl ReadFields for TargetChunkRecord {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let list = List { what: "nodes", max: SHARDS_MAX, item_bytes: 4 + 1, reserve: 0 };
        let names = reader.list(list, |reader| NodeAddress::get(reader, "node"))?;
        let mut distinct: Vec<&NodeAddress> = names.iter().collect();
        distinct.sort_unstable();
        let is_distinct = distinct.windows(2).all(|pair| pair.first() != pair.get(1));
        reader.sound(if is_distinct { Ok(()) } else { Err(NAMED_TWICE) })?;
        let mut used = 0;
        let list = List { what: "targets", max: SHARDS_MAX, item_bytes: TARGET_BYTES, reserve: 0 };
        let targets = reader.list(list, |reader| target(reader, &names, &mut used))?;
        reader.sound(if used == names.len() { Ok(()) } else { Err(OUT_OF_TURN) })?;
        Ok(Self { targets })
    }
}

/// Reads a target. Earlier targets refer to the first `used` names.
fn target(
    reader: &mut Reader<'_>,
    names: &[NodeAddress],
    used: &mut usize,
) -> Result<Target, DecodeError> {
    let node = match <Option<u32> as Field<ClusterProtocol>>::get(reader, "node")? {
        None => None,
        Some(number) => {
            let number = number as usize;
            let name = names.get(number).filter(|_| number <= *used).cloned();
            *used += usize::from(number == *used);
            Some(reader.sound(name.ok_or(OUT_OF_TURN))?)
        }
    };
    let since = match reader.byte(|byte| match byte {
        0 => Ok(None),
        1 => Ok(Some(TargetSince::Placed as fn(_) -> _)),
        2 => Ok(Some(TargetSince::Moved as fn(_) -> _)),
        byte => Err(DecodeProblem::UnknownByte { what: "since", byte }),
    })? {
        None => TargetSince::Unknown,
        Some(since) => since(LogicalTime::from_millis(reader.u64()?)),
    };
    let offset = reader.offset();
    let list = List { what: "flags", max: MAX_FLAGS, item_bytes: 4 + 1, reserve: 0 };
    let flags = reader.list(list, flag)?;
    let flags = Flags::try_new(flags).map_err(|error| reader.invalid_at(offset, error))?;
    Ok(Target { node, flags, since })
}

fn flag(reader: &mut Reader<'_>) -> Result<Flag, DecodeError> {
    let (offset, text) = reader.text("flag")?;
    Flag::parse(text).map_err(|error| reader.invalid_at(offset, error))
}
