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

/// A limit for all peers together, and one for each.
///
/// Within both limits, a peer may use at most half of what other peers leave free. A client's
/// connection may use at most half of the share that the other connections of its peer leave
/// unused. So only many peers together can use up a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The limit for all peers.
    pub all: u64,
    /// The limit for one peer: an IPv4 address, or an IPv6 network of 64 bits.
    pub peer: u64,
}

/// The limits of the calls of a process that wait for a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLimits {
    /// The number of calls.
    pub calls: Share,
    /// The bytes of their payloads.
    pub bytes: Share,
}

impl HeldLimits {
    /// The defaults of a gate, whose peers are clients.
    pub const GATE: Self = Self {
        calls: Share { all: 10_000, peer: 2_500 },
        bytes: Share { all: 256 << 20, peer: 64 << 20 },
    };

    /// The defaults of a node, whose peers are members.
    pub const NODE: Self = Self {
        calls: Share { all: 10_000, peer: 10_000 },
        bytes: Share { all: 256 << 20, peer: 256 << 20 },
    };
}

/// The limits of a process that listens. Its listeners share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenLimits {
    /// Open connections. The limit of open files may lower it.
    pub connections: Share,
    /// Bytes of requests and of unsent answers.
    pub bytes: Share,
    /// Concurrent calls on one gRPC connection.
    pub streams_max: u32,
    /// Timeout of the first bytes of a gRPC connection.
    pub handshake_timeout: Duration,
    /// Timeout of the headers of an HTTP request, counted from their first byte. For the first
    /// request, it is counted from the start of the connection.
    pub header_timeout: Duration,
    /// Timeout of the body of a request.
    pub body_timeout: Duration,
    /// A connection is closed if its peer does not accept the next 16 KiB of an answer within this
    /// time.
    pub answer_timeout: Duration,
    /// A connection without calls for this time is closed.
    pub idle_timeout: Duration,
    /// Interval of pings on a gRPC connection, and their timeout.
    pub ping_timeout: Duration,
    /// Time for incomplete requests after the stop of a listener.
    pub half_open_timeout: Duration,
    /// Time for running calls after the stop of a listener.
    pub shutdown_timeout: Duration,
}

impl ListenLimits {
    /// The defaults of a gate, whose peers are clients.
    pub const GATE: Self = Self {
        connections: Share { all: 16_384, peer: 256 },
        bytes: Share { all: 256 << 20, peer: 64 << 20 },
        streams_max: 1_024,
        handshake_timeout: Duration::from_secs(10),
        header_timeout: Duration::from_secs(10),
        body_timeout: Duration::from_secs(30),
        answer_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_secs(300),
        ping_timeout: Duration::from_secs(10),
        half_open_timeout: Duration::from_secs(5),
        shutdown_timeout: Duration::from_secs(30),
    };

    /// The defaults of a node. Its peers are members, and a gate sends all calls on one connection.
    /// The gate itself limits its clients, so the share of a gate holds all its calls.
    pub const NODE: Self =
        Self { bytes: Share { all: 1 << 30, peer: 1 << 30 }, streams_max: 65_536, ..Self::GATE };
}

/// The parts in which an answer is sent, in bytes. Each part that the peer accepts is progress.
pub const ANSWER_PART_SIZE: usize = 16 << 10;
/// Maximum headers of a request, in bytes.
pub const MAX_HEADER_SIZE: usize = 16 << 10;
/// What a request in progress counts besides its headers and its body, in bytes.
pub const REQUEST_OVERHEAD: u64 = 4 << 10;
/// Maximum number of headers of an HTTP request.
pub const MAX_HEADERS: usize = 64;
/// Maximum streams of a client's connection that the client has reset and the server has not yet
/// dropped.
pub const MAX_PENDING_RESETS: usize = 20;
/// Receive window of one stream, in bytes.
pub const STREAM_WINDOW: u32 = 1 << 20;
/// Receive window of one gRPC connection, in bytes. A body is read at once or refused, so the
/// window limits only what is on the way.
pub const CONNECTION_WINDOW: u32 = 4 << 20;
/// Open files that are not available to connections.
pub const RESERVED_FILES: u64 = 128;
/// How far the fence of a call may be ahead of the node's. Claims between two restores of a store
/// never differ by more.
pub const MAX_FENCE_LEAD: u64 = 1 << 32;

const _: () = {
    // One call fits into the share of a peer, of its connection, and into the queue.
    assert!(4 * MAX_MESSAGE_SIZE as u64 <= ListenLimits::GATE.bytes.peer);
    assert!(4 * MAX_MESSAGE_SIZE as u64 <= ListenLimits::NODE.bytes.peer);
    // All calls of a gate fit into its share of a node, and on its connection. The share is half of
    // the limit. A node counts a little more for a call than its gate.
    assert!(2 * ListenLimits::GATE.bytes.all <= ListenLimits::NODE.bytes.all / 2);
    let streams_max = ListenLimits::NODE.streams_max as u64;
    assert!(ListenLimits::GATE.bytes.all <= streams_max * REQUEST_OVERHEAD);
    assert!((STREAM_WINDOW as usize) < MAX_MESSAGE_SIZE);
    assert!(STREAM_WINDOW <= CONNECTION_WINDOW);
};
