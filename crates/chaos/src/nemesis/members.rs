//! Injects faults of etcd members and of their network, one after another, and recovers from each.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use shardwright_store::Revision;
use shardwright_store::testing::{EtcdCluster, Link};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::{Deck, Fault, Record, Until, wait};
use crate::fleet::Fleet;

/// Storage quota of a member in bytes. Small, so that it fills within a second.
pub const QUOTA: usize = 48 << 20;
/// Database size above which the members are compacted between faults.
const COMPACT_ABOVE_BYTES: u64 = QUOTA as u64 / 3;
/// Size of each value that fills a member, in bytes.
const FILL_VALUE_BYTES: usize = 1 << 19;
/// Timeout for recovery from a fault.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);

/// Injects faults of members.
#[derive(Debug)]
pub struct Members<'n> {
    /// The cluster.
    pub cluster: &'n mut EtcdCluster,
    /// The workers that are partitioned from it.
    pub fleet: Arc<Mutex<Fleet>>,
    /// The record of faults.
    pub record: &'n Record,
    /// Source of random choices.
    pub rng: fastrand::Rng,
}

impl Members<'_> {
    /// Injects faults, and recovers from each.
    pub async fn inject(mut self, until: Until) -> Result<()> {
        let mut deck = Deck::new(Fault::OF_MEMBERS);
        wait(&mut self.rng, 1_000..2_000, until).await;
        while !until.is_over(self.record) {
            let Some(fault) = deck.draw(&mut self.rng) else { break };
            self.inject_fault(fault, until).await.with_context(|| format!("{fault:?}"))?;
            self.record.count(fault);
            self.free_space_if_needed().await?;
            wait(&mut self.rng, 500..2_500, until).await;
        }
        Ok(())
    }

    async fn inject_fault(&mut self, fault: Fault, until: Until) -> Result<()> {
        let any = self.rng.usize(..self.cluster.len());
        match fault {
            Fault::KillMember => self.kill(&[any], until).await,
            Fault::KillLeader => {
                let leader = self.cluster.leader().await?;
                self.kill(&[leader], until).await
            }
            Fault::KillMajority => {
                let other = (any + 1) % self.cluster.len();
                self.kill(&[any, other], until).await
            }
            Fault::PauseMember => self.pause(any, until).await,
            Fault::PauseLeader => {
                let leader = self.cluster.leader().await?;
                self.pause(leader, until).await
            }
            Fault::IsolateMember => {
                let links = [Link::Cut, Link::Silent, Link::Deaf];
                let link = *self.rng.choice(&links).unwrap_or(&Link::Cut);
                self.link(any, link, until).await
            }
            Fault::PartitionMember => self.partition(any, until).await,
            Fault::PartitionLeader => {
                let leader = self.cluster.leader().await?;
                self.partition(leader, until).await
            }
            Fault::SlowMember => {
                let delay = Duration::from_millis(self.rng.u64(20..200));
                self.link(any, Link::Slow(delay), until).await
            }
            Fault::Compact => self.compact().await,
            Fault::Defragment => self.defragment(any).await,
            Fault::FillQuota => self.fill(until).await,
            Fault::KillWorker | Fault::PauseWorker | Fault::IsolateWorker | Fault::LoseAnswers => {
                bail!("not a fault of members")
            }
        }
    }

    async fn kill(&mut self, members: &[usize], until: Until) -> Result<()> {
        self.record.note(&format!("kill members {members:?}"))?;
        for member in members {
            self.cluster.kill(*member)?;
        }
        wait(&mut self.rng, 500..4_000, until).await;
        self.record.note(&format!("start members {members:?}"))?;
        for member in members {
            self.cluster.spawn_again(*member)?;
        }
        self.wait_until_healthy().await
    }

    async fn pause(&mut self, member: usize, until: Until) -> Result<()> {
        self.record.note(&format!("pause member {member}"))?;
        self.cluster.pause(member)?;
        wait(&mut self.rng, 1_000..6_000, until).await;
        self.record.note(&format!("resume member {member}"))?;
        self.cluster.resume(member)?;
        self.wait_until_healthy().await
    }

    async fn link(&mut self, member: usize, link: Link, until: Until) -> Result<()> {
        self.record.note(&format!("links to member {member} are {link:?}"))?;
        self.fleet.lock().await.link_member(member, link);
        wait(&mut self.rng, 1_000..5_000, until).await;
        self.record.note(&format!("links to member {member} are whole"))?;
        self.fleet.lock().await.link_member(member, Link::Whole);
        Ok(())
    }

    async fn partition(&mut self, member: usize, until: Until) -> Result<()> {
        let link = if self.rng.bool() { Link::Cut } else { Link::Silent };
        self.record.note(&format!("partition member {member} from its peers, {link:?}"))?;
        self.cluster.link(member, link)?;
        wait(&mut self.rng, 1_000..6_000, until).await;
        self.record.note(&format!("reconnect member {member} to its peers"))?;
        self.cluster.link(member, Link::Whole)?;
        self.wait_until_healthy().await
    }

    async fn compact(&self) -> Result<()> {
        let leader = self.cluster.leader().await?;
        let operator = self.cluster.operator(leader).await?;
        let revision = operator.status().await?.revision;
        self.record.note(&format!("compact up to {revision:?}"))?;
        // The revision may have been compacted already.
        match operator.compact(revision).await {
            Ok(()) => Ok(()),
            Err(error) if error.to_string().contains("compacted") => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn defragment(&self, member: usize) -> Result<()> {
        self.record.note(&format!("defragment member {member}"))?;
        Ok(self.cluster.operator(member).await?.defragment().await?)
    }

    /// Fills the members until they refuse writes, waits, and frees space.
    async fn fill(&mut self, until: Until) -> Result<()> {
        self.record.note("fill the quota")?;
        let leader = self.cluster.leader().await?;
        let operator = self.cluster.operator(leader).await?;
        let value = Bytes::from(vec![0; FILL_VALUE_BYTES]);
        let (mut key, mut revision) = (self.unused_key(), Revision::new(0));
        for _ in 0..2 * QUOTA / FILL_VALUE_BYTES {
            // Overwrite one key, so that compaction deletes all but the last value.
            match operator.compare_and_swap(key.clone(), revision, value.clone()).await {
                Ok(Some(now)) => revision = now,
                Err(error) if error.to_string().contains("space exceeded") => break,
                // The outcome is unknown, so continue with another key.
                Ok(None) | Err(_) => (key, revision) = (self.unused_key(), Revision::new(0)),
            }
        }
        if operator.alarms().await? == 0 {
            bail!("the members accept more than their quota");
        }
        self.record.note("the quota is full")?;
        wait(&mut self.rng, 2_000..5_000, until).await;
        self.free_space().await
    }

    fn unused_key(&mut self) -> Bytes {
        Bytes::from(format!("value/{:x}", self.rng.u64(..)))
    }

    /// Frees space. Retries, because the leader of a busy cluster may change.
    async fn free_space(&self) -> Result<()> {
        let deadline = Instant::now() + RECOVERY_TIMEOUT;
        loop {
            match self.try_to_free_space().await {
                Ok(()) => return self.record.note("space was freed"),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(error) => self.record.note(&format!("no space was freed yet: {error}"))?,
            }
            sleep(PAUSE).await;
        }
    }

    /// Compacts the history first, because defragmentation frees only deleted revisions.
    async fn try_to_free_space(&self) -> Result<()> {
        self.compact().await?;
        for member in 0..self.cluster.len() {
            self.defragment(member).await?;
        }
        let leader = self.cluster.leader().await?;
        Ok(self.cluster.operator(leader).await?.disarm().await?)
    }

    /// Frees space early, because the quota is small and the test may be long.
    async fn free_space_if_needed(&self) -> Result<()> {
        let leader = self.cluster.leader().await?;
        let operator = self.cluster.operator(leader).await?;
        let is_full = operator.status().await?.database_bytes > COMPACT_ABOVE_BYTES;
        if is_full || operator.alarms().await? > 0 {
            self.free_space().await?;
        }
        Ok(())
    }

    /// Waits until every member answers.
    async fn wait_until_healthy(&mut self) -> Result<()> {
        match timeout(RECOVERY_TIMEOUT, self.cluster.answering()).await {
            Ok(answering) => answering?,
            Err(_) => bail!("a member does not answer"),
        }
        Ok(())
    }
}
