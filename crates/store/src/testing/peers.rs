//! The network between the members of a cluster.
//!
//! Members know each other by addresses, and each address is the same for all of them. So one
//! proxy stands in front of each member, and identifies the sending member by its connection.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::proxy::{Link, carry};

/// How often the process is looked for that speaks.
const LOOKS: u32 = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A link for every member and every other, in either direction.
#[derive(Debug)]
pub(super) struct Peers {
    ports: Vec<u16>,
    /// First by who is spoken to, then by who speaks. The last speaker is any other process.
    links: Vec<Arc<Vec<watch::Sender<Link>>>>,
    processes: Processes,
    acceptors: Vec<JoinHandle<()>>,
}

/// Which process each member is, while it runs.
type Processes = Arc<Mutex<Vec<Option<u32>>>>;

impl Peers {
    /// Stands in front of members that listen for each other on `ports`.
    pub(super) async fn start(targets: &[u16]) -> io::Result<Self> {
        let processes: Processes = Arc::new(Mutex::new(vec![None; targets.len()]));
        let (mut ports, mut links, mut acceptors) = (Vec::new(), Vec::new(), Vec::new());
        for target in targets {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, super::free_port()?)).await?;
            ports.push(listener.local_addr()?.port());
            let from = (0..=targets.len()).map(|_| watch::channel(Link::Whole).0).collect();
            let from = Arc::new(from);
            links.push(Arc::clone(&from));
            let target = (Ipv4Addr::LOCALHOST, *target).into();
            acceptors.push(tokio::spawn(accept(listener, target, from, Arc::clone(&processes))));
        }
        Ok(Self { ports, links, processes, acceptors })
    }

    /// Where a member is to be found by the others.
    pub(super) fn port(&self, member: usize) -> Option<u16> {
        self.ports.get(member).copied()
    }

    /// Says which process a member is.
    pub(super) fn runs(&self, member: usize, process: Option<u32>) {
        if let Ok(mut processes) = self.processes.lock()
            && let Some(place) = processes.get_mut(member)
        {
            *place = process;
        }
    }

    /// Changes what the network does between a member and all others, in both directions.
    pub(super) fn set(&self, member: usize, link: Link) {
        for (target, from) in self.links.iter().enumerate() {
            for (source, sender) in from.iter().enumerate() {
                if target == member || source == member {
                    sender.send_replace(link);
                }
            }
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // Connections watch their links, and end with them.
        self.acceptors.iter().for_each(JoinHandle::abort);
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    from: Arc<Vec<watch::Sender<Link>>>,
    processes: Processes,
) {
    loop {
        let Ok((client, address)) = listener.accept().await else { return };
        let (from, processes) = (Arc::clone(&from), Arc::clone(&processes));
        tokio::spawn(async move {
            let source = source(address.port(), &processes).await;
            let Some(link) = from.get(source).map(watch::Sender::subscribe) else { return };
            if *link.borrow() == Link::Cut {
                return;
            }
            // Who is not there cannot be connected to; the client sees a closed connection.
            if let Ok(server) = TcpStream::connect(target).await {
                carry(client, server, link).await;
            }
        });
    }
}

/// Which member speaks from a port of loopback. One that was just started speaks before its process
/// is known, so it is looked for more than once.
async fn source(port: u16, processes: &Processes) -> usize {
    let mut known = Vec::new();
    for _ in 0..LOOKS {
        known = processes.lock().map(|known| known.clone()).unwrap_or_default();
        if let Some(member) = speaker(port, &known) {
            return member;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    known.len()
}

/// Which of some processes has a connection from a port of loopback.
fn speaker(port: u16, processes: &[Option<u32>]) -> Option<usize> {
    let wanted = format!("socket:[{}]", socket_at(port)?);
    let has_it = |process: u32| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        let mut open = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        open.find(|file| file.as_os_str() == wanted.as_str())
    };
    processes.iter().position(|process| process.and_then(has_it).is_some())
}

/// The number by which the system knows the connection from a port of loopback.
fn socket_at(port: u16) -> Option<String> {
    let local = format!("0100007F:{port:04X}");
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let mut rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.get(1).is_some_and(|address| *address == local))?;
    row.get(9).map(|number| (*number).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_told_by_the_process_that_has_it() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let port = stream.local_addr().unwrap().port();
        let (us, absent) = (Some(std::process::id()), Some(u32::MAX));
        assert_eq!(speaker(port, &[None, absent, us]), Some(2));
        assert_eq!(speaker(port, &[None, absent]), None);
    }
}
