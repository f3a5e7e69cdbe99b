//! The tries of an item, stored in the metadata of the shard that holds the item alone.
//!
//! ```text
//! connector's bytes of the shard, unchanged
//! "swretry\x01"
//! tries: u32 BE
//! tries that do not count: u32 BE
//! not before, milliseconds of the wall clock: u64 BE
//! unparks of the shard before: u64 BE
//! ```

use shardwright_contracts::LogicalTime;

const MARK: &[u8; 8] = b"swretry\x01";
const LENGTH: usize = 8 + 4 + 4 + 8 + 8;

/// How often an item was tried, and when it may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RetryState {
    /// Tries so far.
    pub(super) tries: u32,
    /// Those of them that do not count against the retry policy.
    pub(super) uncounted: u32,
    pub(super) not_before: LogicalTime,
    /// How often the shard had been unparked. If it was unparked since, the tries do not count.
    pub(super) unparks: u64,
}

impl RetryState {
    /// Appends the state to the connector's bytes of a shard.
    pub(super) fn append_to(&self, extra: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(extra.len() + LENGTH);
        bytes.extend_from_slice(extra);
        bytes.extend_from_slice(MARK);
        bytes.extend_from_slice(&self.tries.to_be_bytes());
        bytes.extend_from_slice(&self.uncounted.to_be_bytes());
        bytes.extend_from_slice(&self.not_before.as_millis().to_be_bytes());
        bytes.extend_from_slice(&self.unparks.to_be_bytes());
        bytes
    }

    /// Splits the connector's bytes of a shard from the state, if there is one.
    pub(super) fn split_from(bytes: &[u8]) -> (&[u8], Option<Self>) {
        let found = bytes
            .split_last_chunk::<LENGTH>()
            .and_then(|(extra, state)| Some((extra, Self::parse(state)?)));
        found.map_or((bytes, None), |(extra, state)| (extra, Some(state)))
    }

    fn parse(state: &[u8]) -> Option<Self> {
        let (tries, rest) = state.strip_prefix(MARK)?.split_first_chunk()?;
        let (uncounted, rest) = rest.split_first_chunk()?;
        let (not_before, rest) = rest.split_first_chunk()?;
        let (unparks, _) = rest.split_first_chunk()?;
        Some(Self {
            tries: u32::from_be_bytes(*tries),
            uncounted: u32::from_be_bytes(*uncounted),
            not_before: LogicalTime::from_millis(u64::from_be_bytes(*not_before)),
            unparks: u64::from_be_bytes(*unparks),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: RetryState = RetryState {
        tries: 3,
        uncounted: 1,
        not_before: LogicalTime::from_millis(1_234),
        unparks: 5,
    };

    #[test]
    fn a_state_is_split_from_any_connectors_bytes() {
        for extra in [&b""[..], b"x", b"swretry\x01", &STATE.append_to(b"")] {
            let bytes = STATE.append_to(extra);
            assert_eq!(RetryState::split_from(&bytes), (extra, Some(STATE)));
        }
    }

    #[test]
    fn other_bytes_are_all_the_connectors() {
        let whole = STATE.append_to(b"user");
        for bytes in [&b""[..], b"user", &[0; LENGTH], &whole[..whole.len() - 1], &whole[5..]] {
            assert_eq!(RetryState::split_from(bytes), (bytes, None));
        }
    }

    #[test]
    fn the_stored_bytes_are_pinned() {
        let expected = b"uswretry\x01\0\0\0\x03\0\0\0\x01\0\0\0\0\0\0\x04\xd2\0\0\0\0\0\0\0\x05";
        assert_eq!(STATE.append_to(b"u"), expected);
    }
}
