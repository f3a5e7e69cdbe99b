//! What nodes and gates have in common: they listen, and end when they are told to.

use anyhow::Context as _;
use shardwright_engine::watch;
use shardwright_node::RetryNotices;
use shardwright_placement::NodeAddress;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::commands::print_json;
use crate::exit::Exit;
use crate::say::say;

/// Listens, and says how others reach that.
pub(crate) async fn listen(
    at: &str,
    address: Option<&NodeAddress>,
) -> anyhow::Result<(TcpListener, NodeAddress)> {
    let listener = bind(at).await?;
    let address = match address {
        Some(address) => address.clone(),
        None => {
            let local = listener.local_addr()?;
            anyhow::ensure!(
                !local.ip().is_unspecified(),
                "`{at}` is every address of this machine: say --address, how others reach it"
            );
            NodeAddress::parse(&local.to_string())?
        }
    };
    Ok((listener, address))
}

pub(crate) async fn bind(at: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(at).await;
    listener.with_context(|| format!("nobody can listen at `{at}`"))
}

/// Ctrl-C and the like.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Self { interrupt: signal(interrupt)?, terminate: signal(terminate)? })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Ends properly, unless there is another signal: that ends the program at once.
    pub(crate) async fn end(
        mut self,
        properly: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<Exit> {
        tokio::select! {
            biased;
            () = self.next() => Ok(Exit::Interrupted),
            ended = properly => ended.map(|()| Exit::Done),
        }
    }
}

/// Ends the program when whoever started it is gone, however that came about: what we read from it
/// then ends. A program that stands still reads nothing, so the kernel is told as well; it counts
/// the thread that started us, which is the first one of its program.
pub(crate) fn end_with_parent() {
    #[cfg(target_os = "linux")]
    let _told =
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    std::thread::spawn(|| {
        let _read = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(Exit::Interrupted as i32);
    });
}

/// Tells what a node or a gate tries in vain, whenever there is something new to tell.
pub(crate) async fn follow_notices(
    mut notices: watch::Receiver<RetryNotices>,
    json: bool,
    who: String,
) {
    let mut told = 0;
    loop {
        let new: Vec<_> = notices.borrow_and_update().after(told).cloned().collect();
        for notice in new {
            told = notice.number;
            let (what, why, times) =
                (notice.activity.name(), &notice.why, notice.times.to_string());
            let line = format!("{who} tries in vain to {what}, {times} times by now: {why}");
            let fields = [("who", who.as_str()), ("trying", what), ("why", why), ("times", &times)];
            if tell(json, "trouble", &line, &fields).is_err() {
                return;
            }
        }
        if notices.changed().await.is_err() {
            return;
        }
    }
}

/// Tells what a server is doing: a line of text, or the fields of a JSON object. It serves on if
/// nobody reads that.
pub(crate) fn tell(
    json: bool,
    event: &str,
    line: &str,
    fields: &[(&str, &str)],
) -> anyhow::Result<()> {
    if !json {
        say!("{line}");
        return Ok(());
    }
    let mut object = serde_json::Map::new();
    for (name, value) in [("event", event)].iter().chain(fields) {
        object.insert((*name).to_owned(), (*value).into());
    }
    print_json(&object)
}
