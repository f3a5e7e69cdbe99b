//! Keys of a cluster's records.

use std::fmt::{self, Write};
use std::sync::Arc;

use shardwright_contracts::ShardId;
use shardwright_engine::keyspace::Part::{Id, Text};
use shardwright_engine::keyspace::{Keyspace, join, read_id};
use shardwright_placement::NodeAddress;
use shardwright_placement::limits::MAX_NUM_SHARDS;
use shardwright_placement::seed_format::SeedKey;
use shardwright_store::{Key, StoreRange};

/// Name of a cluster within a keyspace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<str>);

/// A text is not a valid cluster name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cluster's name has 1 to 40 letters, digits, '-', '_' and '.'")]
pub struct ClusterNameError;

impl ClusterName {
    /// Longest name, in bytes.
    pub const BYTES_MAX: usize = 40;

    /// Checks and keeps a name.
    pub fn parse(text: &str) -> Result<Self, ClusterNameError> {
        let is_name = (1..=Self::BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain);
        if is_name { Ok(Self(text.into())) } else { Err(ClusterNameError) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterName({})", self.0)
    }
}

/// Meaning of a cluster's key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClusterKey {
    /// How the cluster maps ids to shards, and how it is stored.
    Plan,
    /// What a deletion leaves of the cluster.
    Deletion,
    /// A node that is a member.
    Member(NodeAddress),
    /// A node that is about to leave.
    Leaving(NodeAddress),
    /// An operator's order to empty a node.
    Drain(NodeAddress),
    /// A gate.
    Gate(NodeAddress),
    /// The leader.
    Leader,
    /// Header of all targets.
    TargetHead,
    /// A chunk of targets.
    TargetChunk(u32),
    /// Claim of a shard. In the text of existing clusters also its target.
    Shard(ShardId),
}

/// The keys of one cluster.
///
/// | key | record |
/// |---|---|
/// | `cluster/<name>/plan` | [`ClusterPlanRecord`](crate::records::ClusterPlanRecord) |
/// | `cluster/<name>/deletion` | [`ClusterDeletionRecord`](crate::records::ClusterDeletionRecord) |
/// | `cluster/<name>/member/<address>` | [`NodeMemberRecord`](crate::records::NodeMemberRecord) |
/// | `cluster/<name>/leaving/<address>` | [`LeavingRecord`](crate::records::LeavingRecord) |
/// | `cluster/<name>/drain/<address>` | [`DrainMarkRecord`](crate::records::DrainMarkRecord) |
/// | `cluster/<name>/gate/<address>` | [`ClusterGateRecord`](crate::records::ClusterGateRecord) |
/// | `cluster/<name>/leader` | [`ClusterLeaderRecord`](crate::records::ClusterLeaderRecord) |
/// | `cluster/<name>/targets` | [`TargetHeadRecord`](crate::records::TargetHeadRecord) |
/// | `cluster/<name>/chunk/<number>` | [`TargetChunkRecord`](crate::records::TargetChunkRecord) |
/// | `cluster/<name>/claim/<shard>` | [`ShardClaimRecord`](crate::records::ShardClaimRecord) |
///
/// A cluster that is stored as text has its members, gates, leader and shards under a prefix of
/// their own, and the rest under `text/<prefix>/`. The prefix alone identifies it, whatever name a
/// process uses. In the key, a byte of the prefix other than a letter, digit, `-`, `_` or `.` is
/// `%` and two hex digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterKeys {
    own: Arc<str>,
    seed: Option<Arc<str>>,
}

impl ClusterKeys {
    /// The keys of a cluster that is stored as records.
    #[must_use]
    pub fn new(keys: &Keyspace, name: &ClusterName) -> Self {
        Self { own: format!("{}cluster/{name}/", keys.prefix()).into(), seed: None }
    }

    /// The keys of a cluster that is stored as text below `prefix`, which has no slash at its end;
    /// none if the two ranges would overlap.
    #[must_use]
    pub fn with_text(keys: &Keyspace, prefix: &str) -> Option<Self> {
        let below = format!("{prefix}/");
        let is_apart = ["cluster", "text"].iter().all(|root| {
            let root = format!("{}{root}/", keys.prefix());
            !root.starts_with(&below) && !below.starts_with(&root)
        });
        let own = format!("{}text/{}/", keys.prefix(), escaped(prefix));
        is_apart.then(|| Self { own: own.into(), seed: Some(prefix.into()) })
    }

    /// Whether members, gates, leader and shards are stored as text.
    #[must_use]
    pub const fn is_text(&self) -> bool {
        self.seed.is_some()
    }

    /// Encodes a key.
    #[must_use]
    pub fn key(&self, key: &ClusterKey) -> Key {
        if let Some((prefix, key)) = self.seed.as_deref().zip(seed_key(key)) {
            return Key::from(key.format(prefix));
        }
        let join = |parts: &[_]| Key::from(join(&self.own, parts));
        match key {
            ClusterKey::Plan => join(&[Text("plan")]),
            ClusterKey::Deletion => join(&[Text("deletion")]),
            ClusterKey::Member(node) => join(&[Text("member/"), Text(node.as_str())]),
            ClusterKey::Leaving(node) => join(&[Text("leaving/"), Text(node.as_str())]),
            ClusterKey::Drain(node) => join(&[Text("drain/"), Text(node.as_str())]),
            ClusterKey::Gate(gate) => join(&[Text("gate/"), Text(gate.as_str())]),
            ClusterKey::Leader => join(&[Text("leader")]),
            ClusterKey::TargetHead => join(&[Text("targets")]),
            ClusterKey::TargetChunk(number) => join(&[Text("chunk/"), Id((*number).into())]),
            ClusterKey::Shard(shard) => join(&[Text("claim/"), Id(shard.as_raw())]),
        }
    }

    /// Parses a key of this cluster.
    #[must_use]
    pub fn parse(&self, key: &Key) -> Option<ClusterKey> {
        let text = str::from_utf8(key.as_bytes()).ok()?;
        let parsed = match text.strip_prefix(&*self.own) {
            Some(below) => parse(below),
            None => from_seed(SeedKey::parse(self.seed.as_deref()?, text).ok()?),
        };
        // A key that is stored as text must not also appear under the cluster's own prefix.
        parsed.filter(|parsed| self.key(parsed) == *key)
    }

    /// The ranges of the cluster: its own keys, and those of its text if it has any.
    #[must_use]
    pub fn ranges(&self) -> Vec<StoreRange> {
        let text = self.seed.as_ref().map(|prefix| StoreRange::prefix(format!("{prefix}/")));
        [Some(StoreRange::prefix(self.own.to_string())), text].into_iter().flatten().collect()
    }

    /// Index of the range that contains a key.
    #[must_use]
    pub fn range_of(&self, key: &ClusterKey) -> usize {
        usize::from(self.is_text() && seed_key(key).is_some())
    }
}

/// Escapes a text to one part of a key.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if is_plain(byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "%{byte:02x}");
        }
    }
    escaped
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

fn parse(below: &str) -> Option<ClusterKey> {
    let node = |text| NodeAddress::parse(text).ok();
    match below.split_once('/') {
        None => match below {
            "plan" => Some(ClusterKey::Plan),
            "deletion" => Some(ClusterKey::Deletion),
            "leader" => Some(ClusterKey::Leader),
            "targets" => Some(ClusterKey::TargetHead),
            _ => None,
        },
        Some(("member", address)) => node(address).map(ClusterKey::Member),
        Some(("leaving", address)) => node(address).map(ClusterKey::Leaving),
        Some(("drain", address)) => node(address).map(ClusterKey::Drain),
        Some(("gate", address)) => node(address).map(ClusterKey::Gate),
        Some(("chunk", number)) => {
            let number = u32::try_from(read_id(number.as_bytes())?).ok()?;
            Some(ClusterKey::TargetChunk(number))
        }
        Some(("claim", shard)) => {
            let shard = read_id(shard.as_bytes())?;
            let exists = shard < u64::from(MAX_NUM_SHARDS);
            exists.then(|| ClusterKey::Shard(ShardId::from_raw(shard)))
        }
        Some(_) => None,
    }
}

/// The key in the text format, if it has one.
fn seed_key(key: &ClusterKey) -> Option<SeedKey> {
    match key {
        ClusterKey::Member(node) => Some(SeedKey::Node(node.clone())),
        ClusterKey::Gate(gate) => Some(SeedKey::Gate(gate.clone())),
        ClusterKey::Leader => Some(SeedKey::Leader),
        ClusterKey::Shard(shard) => Some(SeedKey::Shard(*shard)),
        ClusterKey::Plan
        | ClusterKey::Deletion
        | ClusterKey::Leaving(_)
        | ClusterKey::Drain(_)
        | ClusterKey::TargetHead
        | ClusterKey::TargetChunk(_) => None,
    }
}

fn from_seed(key: SeedKey) -> Option<ClusterKey> {
    Some(match key {
        SeedKey::Shard(shard) => ClusterKey::Shard(shard),
        SeedKey::Node(node) => ClusterKey::Member(node),
        SeedKey::Gate(gate) => ClusterKey::Gate(gate),
        SeedKey::Leader => ClusterKey::Leader,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> NodeAddress {
        NodeAddress::parse(text).unwrap()
    }

    fn every_key() -> Vec<ClusterKey> {
        vec![
            ClusterKey::Plan,
            ClusterKey::Deletion,
            ClusterKey::Member(node("a:1")),
            ClusterKey::Leaving(node("a:1")),
            ClusterKey::Drain(node("a:1")),
            ClusterKey::Gate(node("g:1")),
            ClusterKey::Leader,
            ClusterKey::TargetHead,
            ClusterKey::TargetChunk(3),
            ClusterKey::Shard(ShardId::from_raw(0x570)),
        ]
    }

    fn written(keys: &ClusterKeys) -> Vec<String> {
        every_key().iter().map(|key| keys.key(key).to_string()).collect()
    }

    fn name() -> ClusterName {
        ClusterName::parse("web").unwrap()
    }

    #[test]
    fn keys_round_trip() {
        let keys = ClusterKeys::new(&Keyspace::default(), &name());
        let expected = [
            "plan",
            "deletion",
            "member/a:1",
            "leaving/a:1",
            "drain/a:1",
            "gate/g:1",
            "leader",
            "targets",
            "chunk/0000000000000003",
            "claim/0000000000000570",
        ];
        assert_eq!(written(&keys), expected.map(|key| format!("shardwright/cluster/web/{key}")));
        for key in every_key() {
            assert_eq!(keys.parse(&keys.key(&key)), Some(key.clone()));
            assert!(keys.ranges()[keys.range_of(&key)].contains(&keys.key(&key)));
        }
    }

    #[test]
    fn text_keys_are_those_of_existing_clusters() {
        let keys = ClusterKeys::with_text(&Keyspace::default(), "/goverse").unwrap();
        let expected = [
            "shardwright/text/%2fgoverse/plan",
            "shardwright/text/%2fgoverse/deletion",
            "/goverse/nodes/a:1",
            "shardwright/text/%2fgoverse/leaving/a:1",
            "shardwright/text/%2fgoverse/drain/a:1",
            "/goverse/gates/g:1",
            "/goverse/leader",
            "shardwright/text/%2fgoverse/targets",
            "shardwright/text/%2fgoverse/chunk/0000000000000003",
            "/goverse/shard/1392",
        ];
        assert_eq!(written(&keys), expected);
        for key in every_key() {
            assert_eq!(keys.parse(&keys.key(&key)), Some(key.clone()));
            assert!(keys.ranges()[keys.range_of(&key)].contains(&keys.key(&key)));
        }
        let records = ClusterKeys::new(&Keyspace::default(), &name());
        assert_eq!(keys.parse(&records.key(&ClusterKey::Leader)), None);
    }

    #[test]
    fn unknown_keys_are_rejected() {
        let keys = ClusterKeys::new(&Keyspace::bare(), &name());
        for key in [
            "cluster/web/",
            "cluster/web/other",
            "cluster/web/plan/",
            "cluster/web/member/",
            "cluster/web/member/a/b",
            "cluster/web/claim/570",
            "cluster/web/claim/0000000001000000",
            "cluster/web/chunk/0000000100000000",
            "cluster/other/plan",
            "/goverse/leader",
        ] {
            assert_eq!(keys.parse(&Key::from(key)), None, "{key}");
        }
    }

    #[test]
    fn text_and_records_never_overlap() {
        let text = |prefix| ClusterKeys::with_text(&Keyspace::bare(), prefix);
        assert!(text("goverse").is_some() && text("").is_some());
        for mixed in ["cluster", "cluster/web", "cluster/web/x", "text", "text/x"] {
            assert_eq!(text(mixed), None, "{mixed}");
        }
        // A prefix is escaped to one part, so that keys of two clusters never collide.
        let (one, other) = (text("a").unwrap(), text("a/leaving").unwrap());
        assert_eq!(one.parse(&other.key(&ClusterKey::Plan)), None);
    }

    #[test]
    fn cluster_name_is_short_and_plain() {
        assert_eq!(name().as_str(), "web");
        for bad in ["", "a/b", "a b", "ü", &"n".repeat(41)] {
            assert_eq!(ClusterName::parse(bad), Err(ClusterNameError));
        }
        assert!(ClusterName::parse(&"n".repeat(40)).is_ok());
    }
}
