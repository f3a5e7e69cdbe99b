use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::etcd_operator::EtcdOperator;
use super::peers::Peers;
use super::proxy::Link;
use crate::etcd::{EtcdOptions, EtcdTimeouts, EtcdTls};

/// How often a start is tried, each time on new ports.
const STARTS_MAX: usize = 5;
/// How long to wait for an expected event.
const LIMIT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);

/// The setup of an etcd cluster.
#[derive(Clone, Debug)]
#[must_use]
pub struct EtcdSetup {
    members: usize,
    synced: bool,
    linked: bool,
    arguments: Vec<OsString>,
    tls: Option<EtcdTls>,
}

impl EtcdSetup {
    /// One or three members. Their writes are not synced to the disk.
    pub const fn members(members: usize) -> Self {
        Self { members, synced: false, linked: false, arguments: Vec::new(), tls: None }
    }

    /// Syncs writes to the disk.
    pub const fn synced(mut self) -> Self {
        self.synced = true;
        self
    }

    /// Connects members over links that can be cut.
    pub const fn linked(mut self) -> Self {
        self.linked = true;
        self
    }

    /// Adds an argument for each member.
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets the quota of each member's database, in bytes.
    pub fn quota(self, bytes: usize) -> Self {
        self.argument(format!("--quota-backend-bytes={bytes}"))
    }

    /// Uses TLS for clients. The arguments must name the files of the members.
    pub fn tls(mut self, tls: EtcdTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Starts the cluster and waits until every member answers.
    pub async fn start(self) -> io::Result<EtcdCluster> {
        let mut last = io::Error::other("an etcd has at least one member");
        for _ in 0..STARTS_MAX {
            let mut cluster = EtcdCluster::lay_out(self.clone()).await?;
            let started = async {
                for at in 0..cluster.members.len() {
                    cluster.spawn(at)?;
                }
                cluster.answering().await
            };
            match started.await {
                Ok(()) => return Ok(cluster),
                // Another process may have bound a port in the meantime.
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// A running etcd cluster.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Member>,
    setup: EtcdSetup,
    peers: Option<Peers>,
    /// Removed when this is dropped.
    folder: TempDir,
}

#[derive(Debug)]
struct Member {
    name: String,
    client_port: u16,
    peer_port: u16,
    process: Option<Child>,
}

impl EtcdCluster {
    /// One member.
    pub async fn single() -> io::Result<Self> {
        EtcdSetup::members(1).start().await
    }

    /// Three members.
    pub async fn three() -> io::Result<Self> {
        EtcdSetup::members(3).start().await
    }

    async fn lay_out(setup: EtcdSetup) -> io::Result<Self> {
        let member = |at: usize| {
            let (client_port, peer_port) = (super::free_port()?, super::free_port()?);
            Ok(Member { name: format!("member-{at}"), client_port, peer_port, process: None })
        };
        let members = (0..setup.members).map(member).collect::<io::Result<Vec<_>>>()?;
        let ports: Vec<u16> = members.iter().map(|member| member.peer_port).collect();
        let peers = if setup.linked { Some(Peers::start(&ports).await?) } else { None };
        Ok(Self { members, setup, peers, folder: tempfile::tempdir()? })
    }

    /// The number of members.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no member: always false.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The client address of a member.
    pub fn address(&self, member: usize) -> io::Result<SocketAddr> {
        Ok((Ipv4Addr::LOCALHOST, self.member(member)?.client_port).into())
    }

    /// Client options for all members.
    pub fn options(&self) -> EtcdOptions {
        let addresses = self.members.iter().map(|member| self.endpoint(member.client_port));
        self.options_for(addresses)
    }

    /// Client options for these addresses, each of a member or of a proxy in front of one.
    pub fn options_through(&self, addresses: &[SocketAddr]) -> EtcdOptions {
        self.options_for(addresses.iter().map(|address| self.endpoint(address.port())))
    }

    fn options_for(&self, endpoints: impl Iterator<Item = String>) -> EtcdOptions {
        let options = EtcdOptions::new(endpoints).timeouts(EtcdTimeouts {
            connect: Duration::from_secs(2),
            attempt: Duration::from_secs(2),
            // Longer, because the machine may be busy with other tests.
            call: Duration::from_secs(10),
            silence: Duration::from_millis(300),
            ..EtcdTimeouts::default()
        });
        match &self.setup.tls {
            Some(tls) => options.tls(tls.clone()),
            None => options,
        }
    }

    fn endpoint(&self, port: u16) -> String {
        let scheme = if self.setup.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{port}")
    }

    /// Connects to one member, as soon as it answers.
    pub async fn operator(&self, member: usize) -> io::Result<EtcdOperator> {
        EtcdOperator::connect(&self.options_through(&[self.address(member)?])).await
    }

    /// The index of the leader, as soon as there is one.
    pub async fn leader(&self) -> io::Result<usize> {
        let deadline = Instant::now() + LIMIT;
        loop {
            for (at, member) in self.members.iter().enumerate() {
                if member.process.is_some() && self.leads(at).await {
                    return Ok(at);
                }
            }
            if Instant::now() > deadline {
                return Err(io::Error::other("no etcd member has become the leader"));
            }
            sleep(PAUSE).await;
        }
    }

    async fn leads(&self, member: usize) -> bool {
        let Ok(address) = self.address(member) else { return false };
        let options = self.options_through(&[address]);
        let asking = async { EtcdOperator::connect(&options).await?.status().await };
        let asked = tokio::time::timeout(Duration::from_millis(500), asking).await;
        asked.is_ok_and(|status| status.is_ok_and(|status| status.is_leader))
    }

    /// Waits until every running member answers.
    pub async fn answering(&mut self) -> io::Result<()> {
        for at in 0..self.members.len() {
            let address = self.address(at)?;
            let options = self.options_through(&[address]);
            let member = self.member_mut(at)?;
            let Some(process) = &mut member.process else { continue };
            let mut connecting = Box::pin(EtcdOperator::connect(&options));
            let dead = loop {
                tokio::select! {
                    biased;
                    connected = &mut connecting => break connected.err(),
                    () = sleep(PAUSE) => {}
                }
                if process.try_wait()?.is_some() {
                    break Some(io::Error::other("the process has ended"));
                }
            };
            if let Some(error) = dead {
                let log = fs::read_to_string(self.log(at)?).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(10).collect();
                let text = format!("member {at} does not answer: {error}\n{}", tail.join("\n"));
                return Err(io::Error::other(text));
            }
        }
        Ok(())
    }

    /// Kills a member with SIGKILL.
    pub fn kill(&mut self, member: usize) -> io::Result<()> {
        self.member_mut(member)?.end()
    }

    /// Restarts a killed member, without waiting until it answers.
    pub fn spawn_again(&mut self, member: usize) -> io::Result<()> {
        self.kill(member)?;
        self.spawn(member)
    }

    /// Restarts a killed member with its files and ports, and waits until it answers.
    pub async fn restart(&mut self, member: usize) -> io::Result<()> {
        self.kill(member)?;
        self.spawn(member)?;
        self.answering().await
    }

    /// Resets a member to an empty state, like a restore of an empty backup, and restarts it on its
    /// ports. It must be the only member.
    pub async fn set_back(&mut self, member: usize) -> io::Result<()> {
        self.kill(member)?;
        fs::remove_dir_all(self.folder.path().join(&self.member(member)?.name))?;
        self.spawn(member)?;
        self.answering().await
    }

    /// Changes the link between a member and all others. The cluster must be set up with links.
    pub fn link(&self, member: usize, link: Link) -> io::Result<()> {
        let peers = self.peers.as_ref();
        let peers = peers.ok_or_else(|| io::Error::other("there are no links between members"))?;
        peers.set(member, link);
        Ok(())
    }

    /// Pauses a member with SIGSTOP. Its connections stay open.
    pub fn pause(&self, member: usize) -> io::Result<()> {
        self.signal(member, Signal::STOP)
    }

    /// Resumes a paused member.
    pub fn resume(&self, member: usize) -> io::Result<()> {
        self.signal(member, Signal::CONT)
    }

    /// The process id of a running member.
    pub fn process_id(&self, member: usize) -> io::Result<u32> {
        let process = self.member(member)?.process.as_ref();
        process.map(Child::id).ok_or_else(|| io::Error::other("the member is not running"))
    }

    fn signal(&self, member: usize, signal: Signal) -> io::Result<()> {
        match &self.member(member)?.process {
            Some(process) => Ok(kill_process(Pid::from_child(process), signal)?),
            None => Err(io::Error::other("the member is not running")),
        }
    }

    fn spawn(&mut self, member: usize) -> io::Result<()> {
        let log = File::create(self.log(member)?)?;
        let mut command = self.command(member)?;
        let process = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        if let Some(peers) = &self.peers {
            peers.runs(member, Some(process.id()));
        }
        self.member_mut(member)?.process = Some(process);
        Ok(())
    }

    /// The address of a member for the other members.
    fn advertised(&self, at: usize, member: &Member) -> String {
        let linked = self.peers.as_ref().and_then(|peers| peers.port(at));
        format!("http://127.0.0.1:{}", linked.unwrap_or(member.peer_port))
    }

    fn command(&self, at: usize) -> io::Result<Command> {
        let member = self.member(at)?;
        let cluster: Vec<String> = self
            .members
            .iter()
            .enumerate()
            .map(|(at, member)| format!("{}={}", member.name, self.advertised(at, member)))
            .collect();
        let client = self.endpoint(member.client_port);
        // On a busy machine, heartbeats between members need more time.
        let (beat, election) = if self.members.len() == 1 { (10, 100) } else { (25, 250) };
        let mut command = Command::new("etcd");
        command
            .arg(format!("--name={}", member.name))
            .arg("--data-dir")
            .arg(self.folder.path().join(&member.name))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls=http://127.0.0.1:{}", member.peer_port))
            .arg(format!("--initial-advertise-peer-urls={}", self.advertised(at, member)))
            .arg(format!("--initial-cluster={}", cluster.join(",")))
            .arg(format!("--heartbeat-interval={beat}"))
            .arg(format!("--election-timeout={election}"))
            .arg("--logger=zap")
            .args(&self.setup.arguments);
        if !self.setup.synced {
            command.arg("--unsafe-no-fsync");
        }
        Ok(command)
    }

    fn log(&self, member: usize) -> io::Result<PathBuf> {
        Ok(self.folder.path().join(format!("{}.log", self.member(member)?.name)))
    }

    fn member(&self, member: usize) -> io::Result<&Member> {
        self.members.get(member).ok_or_else(|| io::Error::other("there is no such member"))
    }

    fn member_mut(&mut self, member: usize) -> io::Result<&mut Member> {
        self.members.get_mut(member).ok_or_else(|| io::Error::other("there is no such member"))
    }
}

impl Member {
    fn end(&mut self) -> io::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // There is no caller left to report to.
        let _failed = self.end();
    }
}
