use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports that the system gives to outgoing connections. One of those could have taken
/// the port of a server that is down, and even be connected to itself.
const LOWEST: u32 = 12_000;
const COUNT: u32 = 20_000;

static TAKEN: AtomicU32 = AtomicU32::new(0);

/// A port of loopback on which nobody listens. Somebody else may be faster to take it.
pub(super) fn free() -> io::Result<u16> {
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
