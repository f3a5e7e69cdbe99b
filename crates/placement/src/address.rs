use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::limits::MAX_NODE_ADDRESS_SIZE;

/// The prefix of an id that names its shard. No address starts with it.
pub(crate) const SHARD_PREFIX: &str = "shard#";

/// The network address of a node, usually `host:port`.
///
/// It is cheap to copy. It has no `/` and no `,`, because ids and stored values are cut there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress(Arc<str>);

/// Why a node address is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeAddressError {
    /// It is empty.
    #[error("a node address is empty")]
    Empty,
    /// It is too long.
    #[error("a node address has {size} bytes, at most {MAX_NODE_ADDRESS_SIZE} are allowed")]
    TooLong {
        /// Its length in bytes.
        size: usize,
    },
    /// It contains a separator, or a character that is not visible ASCII.
    #[error("a node address has a character at byte {at} that is not allowed")]
    Character {
        /// The position of the character.
        at: usize,
    },
    /// It looks like the number of a shard.
    #[error("a node address must not start with `shard#`")]
    LooksLikeShard,
}

impl NodeAddress {
    /// Parses an address.
    pub fn parse(text: &str) -> Result<Self, NodeAddressError> {
        check(text)?;
        Ok(Self(Arc::from(text)))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks an address.
pub(crate) fn check(text: &str) -> Result<(), NodeAddressError> {
    if text.is_empty() {
        return Err(NodeAddressError::Empty);
    }
    if text.len() > MAX_NODE_ADDRESS_SIZE {
        return Err(NodeAddressError::TooLong { size: text.len() });
    }
    let allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b',';
    if let Some(at) = text.bytes().position(|byte| !allowed(byte)) {
        return Err(NodeAddressError::Character { at });
    }
    if text.starts_with(SHARD_PREFIX) {
        return Err(NodeAddressError::LooksLikeShard);
    }
    Ok(())
}

impl Borrow<str> for NodeAddress {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeAddress({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("localhost:7001")]
    #[case("10.0.0.5:47001")]
    #[case("[2001:db8::1]:47001")]
    #[case("node1")]
    #[case("shard")]
    fn hosts_with_and_without_a_port_are_valid(#[case] text: &str) {
        assert_eq!(NodeAddress::parse(text).unwrap().as_str(), text);
    }

    #[rstest]
    #[case("", NodeAddressError::Empty)]
    #[case("a/b", NodeAddressError::Character { at: 1 })]
    #[case("a,b", NodeAddressError::Character { at: 1 })]
    #[case("a b", NodeAddressError::Character { at: 1 })]
    #[case("ab\n", NodeAddressError::Character { at: 2 })]
    #[case("nöde:1", NodeAddressError::Character { at: 1 })]
    #[case("shard#5", NodeAddressError::LooksLikeShard)]
    fn separators_and_shard_prefixes_are_invalid(
        #[case] text: &str,
        #[case] error: NodeAddressError,
    ) {
        assert_eq!(NodeAddress::parse(text), Err(error));
    }

    #[test]
    fn address_is_limited_to_512_bytes() {
        assert!(NodeAddress::parse(&"a".repeat(512)).is_ok());
        let error = NodeAddressError::TooLong { size: 513 };
        assert_eq!(NodeAddress::parse(&"a".repeat(513)), Err(error));
    }
}
