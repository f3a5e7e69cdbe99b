//! Listening, signals and event lines of nodes and gates.

use std::sync::Arc;

use anyhow::Context as _;
use shardwright_engine::watch;
use shardwright_node::RetryNotices;
use shardwright_node::limits::ListenLimits;
use shardwright_node::world::Ingress;
use shardwright_placement::NodeAddress;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::arguments::listen::ListenArguments;
use crate::commands::print_json;
use crate::console::{errln, outln};
use crate::exit::Exit;

/// Binds a socket, and returns it with the address for other processes.
pub(crate) async fn listen(
    at: &str,
    address: Option<&NodeAddress>,
    network: &ListenArguments,
) -> anyhow::Result<(TcpListener, NodeAddress)> {
    let listener = bind(at, network).await?;
    let address = match address {
        Some(address) => address.clone(),
        None => {
            let local = listener.local_addr()?;
            anyhow::ensure!(
                !local.ip().is_unspecified(),
                "--listen {at} means all addresses of this machine; give --address HOST:PORT, the \
                 one that other processes can reach"
            );
            NodeAddress::parse(&local.to_string())?
        }
    };
    Ok((listener, address))
}

/// Binds a socket. Only the loopback address is safe without TLS.
pub(crate) async fn bind(at: &str, network: &ListenArguments) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(at).await;
    let listener = listener.with_context(|| format!("cannot listen on {at}"))?;
    if !listener.local_addr()?.ip().to_canonical().is_loopback() {
        anyhow::ensure!(
            network.allow_insecure,
            "other machines reach {at}, and there is no TLS yet; listen on 127.0.0.1, or add \
             --allow-insecure if only trusted processes reach the port"
        );
        errln!(
            "warning: {at} accepts connections from other machines without TLS or authentication"
        );
    }
    Ok(listener)
}

/// The limits of a process, which its listeners share.
pub(crate) fn ingress(network: &ListenArguments, default: ListenLimits) -> Arc<Ingress> {
    let ingress = Ingress::new(network.limits(default));
    let connections = ingress.limits().connections.all;
    if network.is_short_of_files(connections) {
        errln!("warning: the limit of open files leaves {connections} connections; raise it");
    }
    ingress
}

/// SIGINT and SIGTERM.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Self { interrupt: signal(interrupt)?, terminate: signal(terminate)? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Runs a shutdown to its end, or until another signal.
    pub(crate) async fn end(
        mut self,
        shutdown: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<Exit> {
        tokio::select! {
            biased;
            () = self.next() => Ok(Exit::Interrupted),
            ended = shutdown => ended.map(|()| Exit::Done),
        }
    }
}

/// Exits when the parent process is gone: stdin, a pipe from the parent, then reaches its end.
///
/// A stopped process reads nothing, so on Linux the kernel sends a signal as well. The kernel sends
/// it when the thread that started this process ends, which is the parent's main thread.
pub(crate) fn end_with_parent() {
    #[cfg(target_os = "linux")]
    let _set =
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    std::thread::spawn(|| {
        let _read = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(Exit::Interrupted as i32);
    });
}

/// Writes an event for each activity that a node or a gate has to retry.
pub(crate) async fn follow_notices(
    mut notices: watch::Receiver<RetryNotices>,
    json: bool,
    who: String,
) {
    let mut last = 0;
    loop {
        let new: Vec<_> = notices.borrow_and_update().after(last).cloned().collect();
        for notice in new {
            last = notice.number;
            let (what, why, times) =
                (notice.activity.name(), &notice.why, notice.times.to_string());
            let line = format!("{who} failed to {what} ({times} attempts) and retries: {why}");
            let fields = [("who", who.as_str()), ("trying", what), ("why", why), ("times", &times)];
            if write_event(json, "retrying", &line, &fields).is_err() {
                return;
            }
        }
        if notices.changed().await.is_err() {
            return;
        }
    }
}

/// Writes an event of a server: a line of text, or a JSON object of the fields.
pub(crate) fn write_event(
    json: bool,
    event: &str,
    line: &str,
    fields: &[(&str, &str)],
) -> anyhow::Result<()> {
    if !json {
        outln!("{line}");
        return Ok(());
    }
    let mut object = serde_json::Map::new();
    for (name, value) in [("event", event)].iter().chain(fields) {
        object.insert((*name).to_owned(), (*value).into());
    }
    print_json(&object)
}
