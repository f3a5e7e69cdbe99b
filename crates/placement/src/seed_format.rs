//! The text that existing clusters keep in etcd, read and written as it is.
//!
//! | key | value |
//! |---|---|
//! | `<prefix>/shard/<number>` | `<target>,<current>[,f=<flag>…]` |
//! | `<prefix>/nodes/<address>`, `<prefix>/gates/<address>` | the address |
//! | `<prefix>/leader` | the leader's address |
//!
//! An empty target or current means that there is none. There is no place for a fence or for a
//! node's life: the revision at which the key was written stands for both.

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
    /// Where it should be.
    pub target: Option<NodeAddress>,
    /// Who has claimed it.
    pub current: Option<NodeAddress>,
    /// What else is said of it.
    pub flags: Flags,
}

/// Why a text is no value of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeedValueError {
    /// There is no comma between target and current.
    #[error("the value has no second field")]
    NoCurrent,
    /// The target is no address.
    #[error("the target is no node: {0}")]
    Target(#[source] NodeAddressError),
    /// The current node is no address.
    #[error("the current node is none: {0}")]
    Current(#[source] NodeAddressError),
    /// A field after the second does not begin with `f=`.
    #[error("field {at} is no flag")]
    NotAFlag {
        /// Which field, counted from one.
        at: usize,
    },
    /// A flag is not valid.
    #[error(transparent)]
    Flag(#[from] FlagError),
}

impl SeedShard {
    /// Reads a value.
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

    /// What is to be written for a shard of which this much is known.
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

/// What a key below the prefix is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeedKey {
    /// A shard.
    Shard(ShardId),
    /// A node that is a member.
    Node(NodeAddress),
    /// A gate that is a member.
    Gate(NodeAddress),
    /// Who leads.
    Leader,
}

/// Why a text is no key of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeedKeyError {
    /// It does not begin with the prefix and a slash.
    #[error("the key is not below the prefix")]
    Prefix,
    /// It is about nothing that is known.
    #[error("the key is about nothing known")]
    Unknown,
    /// It names a shard by something else than a plain decimal number.
    #[error("the key names no shard")]
    Shard,
    /// It names no node.
    #[error("the key names no node: {0}")]
    Address(#[from] NodeAddressError),
}

impl SeedKey {
    /// Reads a key below `prefix`, which has no slash at its end.
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

    /// The key below `prefix`, which has no slash at its end.
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
    // One shard, one key: no sign and no leading zero.
    (parsed < MAX_NUM_SHARDS && parsed.to_string() == number)
        .then(|| ShardId::from_raw(parsed.into()))
}

#[cfg(test)]
mod tests;
