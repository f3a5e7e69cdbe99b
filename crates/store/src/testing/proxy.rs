//! A proxy with controllable network faults.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The behaviour of a network link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Forwards everything.
    Whole,
    /// Forwards everything with a delay.
    Slow(Duration),
    /// Closes every connection, also new ones.
    Cut,
    /// Keeps connections open and drops everything.
    Silent,
    /// Forwards requests and drops answers.
    Deaf,
}

impl Link {
    const fn loses(self, direction: Direction) -> bool {
        match self {
            Self::Whole | Self::Slow(_) | Self::Cut => false,
            Self::Silent => true,
            Self::Deaf => matches!(direction, Direction::ToClient),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    ToServer,
    ToClient,
}

/// A proxy on loopback in front of a server.
///
/// A connection that has lost bytes is closed when the link loses nothing any more, because the
/// lost bytes do not come back.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    link: watch::Sender<Link>,
    acceptor: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of the server at `target`, which need not be up yet.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, super::free_port()?)).await?;
        let address = listener.local_addr()?;
        let (link, state) = watch::channel(Link::Whole);
        let acceptor = tokio::spawn(accept(listener, target, state));
        Ok(Self { address, link, acceptor })
    }

    /// The address for clients.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the behaviour of the link for all connections.
    pub fn set(&self, link: Link) {
        self.link.send_replace(link);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
        // Connections watch the link, and end with it.
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, link: watch::Receiver<Link>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { return };
        if *link.borrow() == Link::Cut {
            continue;
        }
        let link = link.clone();
        tokio::spawn(async move {
            // If the server is down, the client sees a closed connection.
            if let Ok(server) = TcpStream::connect(target).await {
                carry(client, server, link).await;
            }
        });
    }
}

/// Forwards both directions until either ends.
pub(super) async fn carry(client: TcpStream, server: TcpStream, link: watch::Receiver<Link>) {
    let _slower = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    select! {
        () = pump(from_client, to_server, link.clone(), Direction::ToServer) => {}
        () = pump(from_server, to_client, link, Direction::ToClient) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut link: watch::Receiver<Link>,
    direction: Direction,
) {
    let mut buffer = vec![0; 64 << 10];
    let mut lost = false;
    loop {
        let now = *link.borrow_and_update();
        if now == Link::Cut || (lost && !now.loses(direction)) {
            return;
        }
        let count = select! {
            changed = link.changed() => match changed {
                Ok(()) => continue,
                Err(_proxy_gone) => return,
            },
            read = from.read(&mut buffer) => read.unwrap_or(0),
        };
        let now = *link.borrow();
        lost |= now.loses(direction) && count > 0;
        if lost {
            if count == 0 {
                // The other side does not see the end of this one either.
                let _changed = link.changed().await;
            }
            continue;
        }
        if let Link::Slow(delay) = now {
            sleep(delay).await;
        }
        let Some(piece) = buffer.get(..count).filter(|piece| !piece.is_empty()) else { return };
        if to.write_all(piece).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    /// A server that echoes its input and reports how much that was.
    async fn echo() -> (SocketAddr, watch::Receiver<usize>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, total) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let heard = heard.clone();
                tokio::spawn(async move {
                    let mut buffer = [0; 64];
                    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                        heard.send_modify(|total| *total += count);
                        stream.write_all(&buffer[..count]).await.unwrap();
                    }
                });
            }
        });
        (address, total)
    }

    async fn exchange(stream: &mut TcpStream, text: &str) -> io::Result<String> {
        stream.write_all(text.as_bytes()).await?;
        let mut buffer = vec![0; text.len()];
        stream.read_exact(&mut buffer).await?;
        Ok(String::from_utf8(buffer).unwrap())
    }

    #[tokio::test]
    async fn an_open_or_slow_link_forwards_everything() {
        let (target, _) = echo().await;
        let proxy = Proxy::start(target).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(exchange(&mut stream, "hello").await.unwrap(), "hello");
        proxy.set(Link::Slow(Duration::from_millis(20)));
        let start = std::time::Instant::now();
        assert_eq!(exchange(&mut stream, "again").await.unwrap(), "again");
        assert!(start.elapsed() >= Duration::from_millis(40));
    }

    #[tokio::test]
    async fn a_cut_link_closes_present_and_new_connections() {
        let (target, _) = echo().await;
        let proxy = Proxy::start(target).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(exchange(&mut stream, "hello").await.unwrap(), "hello");
        proxy.set(Link::Cut);
        let mut buffer = [0];
        assert_eq!(timeout(SOON, stream.read(&mut buffer)).await.unwrap().unwrap_or(0), 0);
        let mut next = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(timeout(SOON, next.read(&mut buffer)).await.unwrap().unwrap_or(0), 0);
        proxy.set(Link::Whole);
        let mut healed = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(exchange(&mut healed, "hello").await.unwrap(), "hello");
    }

    #[tokio::test]
    async fn a_link_without_answers_forwards_requests() {
        let (target, mut heard) = echo().await;
        let proxy = Proxy::start(target).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(exchange(&mut stream, "12345").await.unwrap(), "12345");
        proxy.set(Link::Deaf);
        stream.write_all(b"67890").await.unwrap();
        timeout(SOON, heard.wait_for(|total| *total == 10)).await.unwrap().unwrap();
        let mut buffer = [0];
        let silence = timeout(Duration::from_millis(50), stream.read(&mut buffer)).await;
        assert!(silence.is_err());
        proxy.set(Link::Whole);
        assert_eq!(timeout(SOON, stream.read(&mut buffer)).await.unwrap().unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn a_silent_link_drops_everything() {
        let (target, heard) = echo().await;
        let proxy = Proxy::start(target).await.unwrap();
        proxy.set(Link::Silent);
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut buffer = [0];
        let silence = timeout(Duration::from_millis(50), stream.read(&mut buffer)).await;
        assert!(silence.is_err());
        assert_eq!(*heard.borrow(), 0);
    }
}
