//! Real servers for tests. Tests kill, pause, disconnect and fill them.
//!
//! Servers listen on free ports of loopback only. Each has a folder of its own, and stops when it
//! is dropped.

mod etcd_cluster;
mod etcd_operator;
mod peers;
mod proxy;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{io, process};

pub use etcd_cluster::{EtcdCluster, EtcdSetup};
pub use etcd_operator::{EtcdOperator, EtcdStatus};
pub use proxy::{Link, Proxy};

/// Below the ephemeral ports. An outgoing connection could occupy the port of a stopped server, or
/// even connect to itself.
const LOWEST: u32 = 12_000;
const COUNT: u32 = 20_000;

static TAKEN: AtomicU32 = AtomicU32::new(0);

/// Finds a free port of loopback. Another process may still bind it first.
fn free_port() -> io::Result<u16> {
    for _ in 0..COUNT {
        // Parallel test processes start at different ports.
        let taken = TAKEN.fetch_add(1, Ordering::Relaxed);
        let offset = process::id().wrapping_mul(7_919).wrapping_add(taken) % COUNT;
        let Ok(port) = u16::try_from(LOWEST + offset) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::Error::other("no port of loopback is free"))
}
