//! Real servers for tests, that can be killed, paused, cut off and filled up.
//!
//! Everything listens on loopback only, in ports that are free, keeps its files in a folder of its
//! own, and is gone when it is dropped.

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

/// Below the ports that the system gives to outgoing connections. One of those could have taken
/// the port of a server that is down, and even be connected to itself.
const LOWEST: u32 = 12_000;
const COUNT: u32 = 20_000;

static TAKEN: AtomicU32 = AtomicU32::new(0);

/// A free port of loopback. Another process may be faster to take it.
fn free_port() -> io::Result<u16> {
    for _ in 0..COUNT {
        // Processes that run tests side by side begin at different places.
        let taken = TAKEN.fetch_add(1, Ordering::Relaxed);
        let offset = process::id().wrapping_mul(7_919).wrapping_add(taken) % COUNT;
        let Ok(port) = u16::try_from(LOWEST + offset) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::Error::other("no port of loopback is free"))
}
