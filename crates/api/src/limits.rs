//! How much of everything a call may have.

/// Longest payload of a call or an answer, in bytes.
pub const MAX_PAYLOAD_SIZE: usize = 4 << 20;
/// Longest message on the wire, in bytes: a payload and what is said around it.
pub const MAX_MESSAGE_SIZE: usize = MAX_PAYLOAD_SIZE + (1 << 20);
/// Longest name of an object type or a method, in bytes.
pub const MAX_NAME_SIZE: usize = 256;
/// Most calls that wait for each other in one chain.
pub const MAX_CHAIN_LENGTH: usize = 32;

/// Longest id of an object that fits into a link of a chain.
const MAX_LINK_SIZE: usize = 4_096 + MAX_NAME_SIZE + 16;

const _: () = {
    assert!(MAX_CHAIN_LENGTH * MAX_LINK_SIZE < MAX_MESSAGE_SIZE - MAX_PAYLOAD_SIZE);
};
