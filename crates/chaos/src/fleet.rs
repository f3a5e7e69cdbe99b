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
    /// What is wrong with all links to each member.
    members: Vec<Link>,
    folder: PathBuf,
    program: PathBuf,
    chance: fastrand::Rng,
    started: u64,
}

#[derive(Debug)]
struct Slot {
    /// One to each member.
    links: Vec<Proxy>,
    /// What is wrong with all of them.
    link: Link,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// As long as it is open, the process lives.
    orders: ChildStdin,
    number: u64,
}

impl Drop for Process {
    fn drop(&mut self) {
        // There is no caller left to report to.
        let _gone = (self.child.kill(), self.child.wait());
    }
}

impl Fleet {
    /// Starts so many processes that write to `folder`.
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
        let chance = fastrand::Rng::with_seed(seed);
        let (members, folder) = (vec![Link::Whole; cluster.len()], folder.to_owned());
        let mut fleet = Self { slots, members, folder, program, chance, started: 0 };
        for slot in 0..workers {
            fleet.replace(slot)?;
        }
        Ok(fleet)
    }

    /// How many processes there are.
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
        self.slots.get_mut(slot).context("there is no such worker")
    }

    /// Kills a process at once, and starts another in its place.
    pub fn replace(&mut self, slot: usize) -> Result<()> {
        self.slot(slot)?.process = None;
        self.started += 1;
        let number = self.started;
        let mut command = Command::new(&self.program);
        command.arg("worker").arg("--history").arg(self.folder.join(format!("{number}.history")));
        command.arg("--seed").arg(self.chance.u64(..).to_string());
        command.arg("--worker").arg((number * WORKERS_APART).to_string());
        for link in &self.slot(slot)?.links {
            command.arg("--endpoint").arg(format!("http://{}", link.address()));
        }
        let errors = File::create(self.folder.join(format!("{number}.errors")))?;
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(errors).spawn()?;
        let orders = child.stdin.take().context("a pipe to the worker")?;
        self.slot(slot)?.process = Some(Process { child, orders, number });
        Ok(())
    }

    /// Stops a process in the middle of whatever it does.
    pub fn pause(&mut self, slot: usize) -> Result<()> {
        self.signal(slot, Signal::STOP)
    }

    /// Lets a paused process go on.
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
        if let Some(place) = self.members.get_mut(member) {
            *place = link;
        }
        self.set_links();
    }

    /// A link is whole if nothing is wrong with its worker nor with its member.
    fn set_links(&self) {
        for slot in &self.slots {
            for (proxy, of_member) in slot.links.iter().zip(&self.members) {
                proxy.set(if slot.link == Link::Whole { *of_member } else { slot.link });
            }
        }
    }

    /// Fails if a process has ended that was not killed.
    pub fn check(&mut self) -> Result<()> {
        for process in self.slots.iter_mut().filter_map(|slot| slot.process.as_mut()) {
            if let Some(status) = process.child.try_wait()? {
                let path = self.folder.join(format!("{}.errors", process.number));
                let errors = std::fs::read_to_string(path).unwrap_or_default();
                bail!("worker {} has ended by itself, {status}: {errors}", process.number);
            }
        }
        Ok(())
    }

    /// Lets all processes finish what there is, and fails if they do not within a limit.
    pub async fn finish(mut self, limit: Duration) -> Result<()> {
        for process in self.slots.iter_mut().filter_map(|slot| slot.process.as_mut()) {
            writeln!(process.orders, "{FINISH}")?;
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
                bail!("all is well again, and workers {busy:?} do not finish");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
