//! How much of everything a call may have.

use std::time::Duration;

/// Longest payload of a call or an answer, in bytes.
pub const MAX_PAYLOAD_SIZE: usize = 4 << 20;
/// Longest message on the wire, in bytes: a payload and what is said around it.
pub const MAX_MESSAGE_SIZE: usize = MAX_PAYLOAD_SIZE + (1 << 20);
/// Longest name of an object type or a method, in bytes.
pub const MAX_NAME_SIZE: usize = 256;
/// Most calls that wait for each other in one chain.
pub const MAX_CHAIN_LENGTH: usize = 32;
/// Longest text of an error, in bytes. It travels in headers, of which a connection takes 16 KiB at
/// most, where every byte may be written as three.
pub const MAX_ERROR_TEXT_SIZE: usize = 1_024;
/// Longest answer about the loads of a node's shards, in bytes: those of about four million.
pub const MAX_LOADS_SIZE: usize = 32 << 20;
/// The most time that a call may have.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// Longest id of an object that fits into a link of a chain.
const MAX_LINK_SIZE: usize = 4_096 + MAX_NAME_SIZE + 16;

const _: () = {
    // A text, a name that the details hold beside it, and the rest.
    assert!(2 * 3 * MAX_ERROR_TEXT_SIZE < 8 << 10);
    assert!(MAX_CHAIN_LENGTH * MAX_LINK_SIZE < MAX_MESSAGE_SIZE - MAX_PAYLOAD_SIZE);
};
