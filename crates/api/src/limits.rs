//! The limits of calls and messages.

use std::time::Duration;

/// Maximum payload of a call or an answer, in bytes.
pub const MAX_PAYLOAD_SIZE: usize = 4 << 20;
/// Maximum message on the wire, in bytes: a payload and its envelope.
pub const MAX_MESSAGE_SIZE: usize = MAX_PAYLOAD_SIZE + (1 << 20);
/// Maximum name of an object type or a method, in bytes.
pub const MAX_NAME_SIZE: usize = 256;
/// Maximum calls in one chain of nested calls.
pub const MAX_CHAIN_LENGTH: usize = 32;
/// Maximum text of an error, in bytes. It is sent in headers of at most 16 KiB, where every byte
/// may take three.
pub const MAX_ERROR_TEXT_SIZE: usize = 1_024;
/// Maximum answer about the loads of a node's shards, in bytes: about four million shards.
pub const MAX_LOADS_SIZE: usize = 32 << 20;
/// Maximum timeout of a call.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum size of a link of a chain: an object id, a name and framing.
const MAX_LINK_SIZE: usize = 4_096 + MAX_NAME_SIZE + 16;

const _: () = {
    // A text, a name in the details, and the rest.
    assert!(2 * 3 * MAX_ERROR_TEXT_SIZE < 8 << 10);
    assert!(MAX_CHAIN_LENGTH * MAX_LINK_SIZE < MAX_MESSAGE_SIZE - MAX_PAYLOAD_SIZE);
};
