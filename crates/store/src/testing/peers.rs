//! The network between the members of a cluster.
//!
//! Members find each other by addresses, and each address is the same for all of them. So each
//! member has one proxy in front, which identifies the sending member by its connection.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::proxy::{Link, carry};

/// How often the sending process is searched.
const LOOKS: u32 = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A link for each pair of members, in each direction.
#[derive(Debug)]
pub(super) struct Peers {
    ports: Vec<u16>,
    /// Indexed by the receiver, then by the sender. The last sender stands for any other process.
    links: Vec<Arc<Vec<watch::Sender<Link>>>>,
    processes: Processes,
    acceptors: Vec<JoinHandle<()>>,
}

/// The process id of each running member.
type Processes = Arc<Mutex<Vec<Option<u32>>>>;

impl Peers {
    /// Starts proxies in front of members that listen for each other on `ports`.
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

    /// The address of a member for the other members.
    pub(super) fn port(&self, member: usize) -> Option<u16> {
        self.ports.get(member).copied()
    }

    /// Sets the process id of a member.
    pub(super) fn runs(&self, member: usize, process: Option<u32>) {
        if let Ok(mut processes) = self.processes.lock()
            && let Some(place) = processes.get_mut(member)
        {
            *place = process;
        }
    }

    /// Changes the links between a member and all others, in both directions.
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
    let Ok(own) = listener.local_addr() else { return };
    loop {
        let Ok((client, address)) = listener.accept().await else { return };
        let (from, processes) = (Arc::clone(&from), Arc::clone(&processes));
        tokio::spawn(async move {
            let source = source((address.port(), own.port()), &processes).await;
            let Some(link) = from.get(source).map(watch::Sender::subscribe) else { return };
            if *link.borrow() == Link::Cut {
                return;
            }
            // If the member is down, the client sees a closed connection.
            if let Ok(server) = TcpStream::connect(target).await {
                carry(client, server, link).await;
            }
        });
    }
}

/// The member that has a connection between two ports of loopback. A member that has just started
/// may connect before its process id is set, so the search is repeated.
async fn source(ports: (u16, u16), processes: &Processes) -> usize {
    let mut known = Vec::new();
    for _ in 0..LOOKS {
        known = processes.lock().map(|known| known.clone()).unwrap_or_default();
        if let Some(member) = speaker(ports, &known) {
            return member;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    known.len()
}

/// The process that has a connection from one port of loopback to another.
fn speaker(ports: (u16, u16), processes: &[Option<u32>]) -> Option<usize> {
    let wanted = format!("socket:[{}]", socket_at(ports)?);
    let has_it = |process: u32| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        let mut open = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        open.find(|file| file.as_os_str() == wanted.as_str())
    };
    processes.iter().position(|process| process.and_then(has_it).is_some())
}

/// The inode of the socket that is connected from one port of loopback to another. Connections to
/// different ports may come from the same port.
fn socket_at((from, to): (u16, u16)) -> Option<String> {
    let ends = [from, to].map(|port| format!("0100007F:{port:04X}"));
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let mut rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.get(1..3).is_some_and(|found| found == ends))?;
    row.get(9).map(|number| (*number).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_identifies_its_process() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ports = (stream.local_addr().unwrap().port(), listener.local_addr().unwrap().port());
        let (us, absent) = (Some(std::process::id()), Some(u32::MAX));
        assert_eq!(speaker(ports, &[None, absent, us]), Some(2));
        assert_eq!(speaker(ports, &[None, absent]), None);
        assert_eq!(speaker((ports.0, ports.0), &[us]), None, "no such connection");
    }
}
