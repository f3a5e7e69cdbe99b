//! The worker processes, and the links between each of them and each member.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use shardwright_store::testing::{EtcdCluster, Link, Proxy};

use crate::worker::{FINISH, WORKERS_APART};

/// The worker processes.
#[derive(Debug)]
pub struct Fleet {
    slots: Vec<Slot>,
    /// The fault on all links to each member.
    members: Vec<Link>,
    folder: PathBuf,
    program: PathBuf,
    rng: fastrand::Rng,
    started: u64,
}

#[derive(Debug)]
struct Slot {
    /// One to each member.
    links: Vec<Proxy>,
    /// The fault on all of them.
    link: Link,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// The process exits when this pipe is closed.
    stdin: ChildStdin,
    number: u64,
}

impl Drop for Process {
    fn drop(&mut self) {
        // Errors cannot be reported from drop.
        let _gone = (self.child.kill(), self.child.wait());
    }
}

impl Fleet {
    /// Starts `workers` processes that write histories to `folder`.
    pub async fn start(
        cluster: &EtcdCluster,
        workers: usize,
        folder: &Path,
        seed: u64,
    ) -> Result<Self> {
        let mut slots = Vec::new();
        for _ in 0..workers {
            let mut links = Vec::new();
            for member in 0..cluster.len() {
                links.push(Proxy::start(cluster.address(member)?).await?);
            }
            slots.push(Slot { links, link: Link::Whole, process: None });
        }
        let program = std::env::current_exe()?;
        let rng = fastrand::Rng::with_seed(seed);
        let (members, folder) = (vec![Link::Whole; cluster.len()], folder.to_owned());
        let mut fleet = Self { slots, members, folder, program, rng, started: 0 };
        for slot in 0..workers {
            fleet.replace(slot)?;
        }
        Ok(fleet)
    }

    /// Number of processes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn slot(&mut self, slot: usize) -> Result<&mut Slot> {
        self.slots.get_mut(slot).context("no such worker")
    }

    /// Kills a process and starts another in its slot.
    pub fn replace(&mut self, slot: usize) -> Result<()> {
        self.slot(slot)?.process = None;
        self.started += 1;
        let number = self.started;
        let mut command = Command::new(&self.program);
        command.arg("worker").arg("--history").arg(self.folder.join(format!("{number}.history")));
        command.arg("--seed").arg(self.rng.u64(..).to_string());
        command.arg("--worker").arg((number * WORKERS_APART).to_string());
        for link in &self.slot(slot)?.links {
            command.arg("--endpoint").arg(format!("http://{}", link.address()));
        }
        let errors = File::create(self.folder.join(format!("{number}.errors")))?;
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(errors).spawn()?;
        let stdin = child.stdin.take().context("no pipe to the worker")?;
        self.slot(slot)?.process = Some(Process { child, stdin, number });
        Ok(())
    }

    /// Pauses a process with SIGSTOP.
    pub fn pause(&mut self, slot: usize) -> Result<()> {
        self.signal(slot, Signal::STOP)
    }

    /// Resumes a paused process.
    pub fn resume(&mut self, slot: usize) -> Result<()> {
        self.signal(slot, Signal::CONT)
    }

    fn signal(&mut self, slot: usize, signal: Signal) -> Result<()> {
        match &self.slot(slot)?.process {
            Some(process) => Ok(kill_process(Pid::from_child(&process.child), signal)?),
            None => Ok(()),
        }
    }

    /// Changes all links of one worker.
    pub fn link_worker(&mut self, slot: usize, link: Link) -> Result<()> {
        self.slot(slot)?.link = link;
        self.set_links();
        Ok(())
    }

    /// Changes the links of all workers to one member.
    pub fn link_member(&mut self, member: usize, link: Link) {
        if let Some(current) = self.members.get_mut(member) {
            *current = link;
        }
        self.set_links();
    }

    /// A worker's fault takes precedence over a member's.
    fn set_links(&self) {
        for slot in &self.slots {
            for (proxy, of_member) in slot.links.iter().zip(&self.members) {
                proxy.set(if slot.link == Link::Whole { *of_member } else { slot.link });
            }
        }
    }

    /// Fails if a process has exited without being killed.
    pub fn check(&mut self) -> Result<()> {
        for process in self.slots.iter_mut().filter_map(|slot| slot.process.as_mut()) {
            if let Some(status) = process.child.try_wait()? {
                let path = self.folder.join(format!("{}.errors", process.number));
                let errors = std::fs::read_to_string(path).unwrap_or_default();
                bail!("worker {} has exited, {status}: {errors}", process.number);
            }
        }
        Ok(())
    }

    /// Lets all processes finish their work. Fails if they exceed the limit.
    pub async fn finish(mut self, limit: Duration) -> Result<()> {
        for process in self.slots.iter_mut().filter_map(|slot| slot.process.as_mut()) {
            writeln!(process.stdin, "{FINISH}")?;
        }
        let deadline = Instant::now() + limit;
        loop {
            let mut busy = Vec::new();
            for process in self.slots.iter_mut().filter_map(|slot| slot.process.as_mut()) {
                match process.child.try_wait()? {
                    None => busy.push(process.number),
                    Some(status) if status.success() => {}
                    Some(status) => bail!("worker {} has failed, {status}", process.number),
                }
            }
            if busy.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("workers {busy:?} did not finish after all faults ended");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
