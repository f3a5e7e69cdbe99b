//! The text format of existing clusters in etcd.
//!
//! | key | value |
//! |---|---|
//! | `<prefix>/shard/<number>` | `<target>,<current>[,f=<flag>…]` |
//! | `<prefix>/nodes/<address>`, `<prefix>/gates/<address>` | the address |
//! | `<prefix>/leader` | the leader's address |
//!
//! An empty target or current means none. There is no field for a fence or an incarnation: the
//! revision at which the key was written stands for both.

use std::fmt;

use shardwright_contracts::ShardId;

use crate::address::{NodeAddress, NodeAddressError};
use crate::flags::{Flag, FlagError, Flags};
use crate::limits::MAX_NUM_SHARDS;
use crate::shard_map::ShardInfo;
use crate::target::{Target, TargetSince};

const FLAG: &str = "f=";

/// The value of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeedShard {
    /// Its target.
    pub target: Option<NodeAddress>,
    /// Its holder.
    pub current: Option<NodeAddress>,
    /// Its flags.
    pub flags: Flags,
}

/// Why the value of a shard is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeedValueError {
    /// There is no comma between target and current.
    #[error("the value has no second field")]
    NoCurrent,
    /// The target is not a node address.
    #[error("invalid target: {0}")]
    Target(#[source] NodeAddressError),
    /// The current node is not a node address.
    #[error("invalid current node: {0}")]
    Current(#[source] NodeAddressError),
    /// A field after the second does not begin with `f=`.
    #[error("field {at} is not a flag")]
    NotAFlag {
        /// The number of the field, from one.
        at: usize,
    },
    /// A flag is invalid.
    #[error(transparent)]
    Flag(#[from] FlagError),
}

impl SeedShard {
    /// Parses a value.
    pub fn parse(text: &str) -> Result<Self, SeedValueError> {
        let mut fields = text.split(',');
        let target = optional(fields.next().unwrap_or_default()).map_err(SeedValueError::Target)?;
        let current = optional(fields.next().ok_or(SeedValueError::NoCurrent)?)
            .map_err(SeedValueError::Current)?;
        let mut flags = Vec::new();
        for (field, at) in fields.zip(3..) {
            let flag = field.strip_prefix(FLAG).ok_or(SeedValueError::NotAFlag { at })?;
            flags.push(Flag::parse(flag)?);
        }
        Ok(Self { target, current, flags: Flags::try_new(flags)? })
    }

    /// The value of a shard.
    #[must_use]
    pub fn of(info: ShardInfo<'_>) -> Self {
        Self {
            target: info.target.cloned(),
            current: info.current.map(|holder| holder.address.clone()),
            flags: info.flags.clone(),
        }
    }

    /// The part that the leader wrote.
    #[must_use]
    pub fn to_target(&self) -> Target {
        Target { node: self.target.clone(), flags: self.flags.clone(), since: TargetSince::Unknown }
    }
}

fn optional(text: &str) -> Result<Option<NodeAddress>, NodeAddressError> {
    if text.is_empty() { Ok(None) } else { NodeAddress::parse(text).map(Some) }
}

/// The text that [`SeedShard::parse`] reads.
impl fmt::Display for SeedShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |node: &Option<NodeAddress>| node.as_ref().map(ToString::to_string);
        let (target, current) = (text(&self.target), text(&self.current));
        write!(f, "{},{}", target.unwrap_or_default(), current.unwrap_or_default())?;
        self.flags.iter().try_for_each(|flag| write!(f, ",{FLAG}{flag}"))
    }
}

/// The subject of a key below the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeedKey {
    /// A shard.
    Shard(ShardId),
    /// A node that is a member.
    Node(NodeAddress),
    /// A gate that is a member.
    Gate(NodeAddress),
    /// The leader.
    Leader,
}

/// Why a key is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeedKeyError {
    /// It does not begin with the prefix and a slash.
    #[error("the key is not below the prefix")]
    Prefix,
    /// Its kind is unknown.
    #[error("the kind of the key is unknown")]
    Unknown,
    /// The shard is not a plain decimal number.
    #[error("the shard of the key is not a plain decimal number")]
    Shard,
    /// The address is invalid.
    #[error("invalid address in the key: {0}")]
    Address(#[from] NodeAddressError),
}

impl SeedKey {
    /// Parses a key below `prefix`, which has no trailing slash.
    pub fn parse(prefix: &str, key: &str) -> Result<Self, SeedKeyError> {
        let below = key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/'));
        match below.ok_or(SeedKeyError::Prefix)?.split_once('/') {
            Some(("shard", number)) => shard(number).map(Self::Shard).ok_or(SeedKeyError::Shard),
            Some(("nodes", address)) => Ok(Self::Node(NodeAddress::parse(address)?)),
            Some(("gates", address)) => Ok(Self::Gate(NodeAddress::parse(address)?)),
            None if below == Some("leader") => Ok(Self::Leader),
            Some(_) | None => Err(SeedKeyError::Unknown),
        }
    }

    /// The key below `prefix`, which has no trailing slash.
    #[must_use]
    pub fn format(&self, prefix: &str) -> String {
        match self {
            Self::Shard(shard) => format!("{prefix}/shard/{}", shard.as_raw()),
            Self::Node(address) => format!("{prefix}/nodes/{address}"),
            Self::Gate(address) => format!("{prefix}/gates/{address}"),
            Self::Leader => format!("{prefix}/leader"),
        }
    }
}

fn shard(number: &str) -> Option<ShardId> {
    let parsed: u32 = number.parse().ok()?;
    // One shard has one key: no sign and no leading zero.
    (parsed < MAX_NUM_SHARDS && parsed.to_string() == number)
        .then(|| ShardId::from_raw(parsed.into()))
}

#[cfg(test)]
mod tests;
