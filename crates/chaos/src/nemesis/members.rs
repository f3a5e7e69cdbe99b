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

/// How many bytes a member may store. Little, so that it can be filled up in a second.
pub const QUOTA: usize = 48 << 20;
/// From this size on a database is compacted, though nothing is wrong: the quota is small.
const ROOMY: u64 = QUOTA as u64 / 3;
/// What is written to fill a member up, at a time.
const FILLING: usize = 1 << 19;
/// How long it may take to mend something.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);

/// Troubles the members.
#[derive(Debug)]
pub struct Members<'n> {
    /// The cluster.
    pub cluster: &'n mut EtcdCluster,
    /// Those who are cut off from it.
    pub fleet: Arc<Mutex<Fleet>>,
    /// What is written down.
    pub record: &'n Record,
    /// What its choices depend on.
    pub chance: fastrand::Rng,
}

impl Members<'_> {
    /// Causes faults, and leaves everything whole.
    pub async fn trouble(mut self, until: Until) -> Result<()> {
        let mut deck = Deck::new(Fault::OF_MEMBERS);
        wait(&mut self.chance, 1_000..2_000, until).await;
        while !until.is_over(self.record) {
            let Some(fault) = deck.draw(&mut self.chance) else { break };
            self.cause(fault, until).await.with_context(|| format!("{fault:?}"))?;
            self.record.count(fault);
            self.keep_room().await?;
            wait(&mut self.chance, 500..2_500, until).await;
        }
        Ok(())
    }

    async fn cause(&mut self, fault: Fault, until: Until) -> Result<()> {
        let any = self.chance.usize(..self.cluster.len());
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
                let link = *self.chance.choice(&links).unwrap_or(&Link::Cut);
                self.link(any, link, until).await
            }
            Fault::SeverMember => self.sever(any, until).await,
            Fault::SeverLeader => {
                let leader = self.cluster.leader().await?;
                self.sever(leader, until).await
            }
            Fault::SlowMember => {
                let delay = Duration::from_millis(self.chance.u64(20..200));
                self.link(any, Link::Slow(delay), until).await
            }
            Fault::Compact => self.compact().await,
            Fault::Defragment => self.defragment(any).await,
            Fault::FillQuota => self.fill(until).await,
            Fault::KillWorker | Fault::PauseWorker | Fault::IsolateWorker | Fault::LoseAnswers => {
                bail!("not done to members")
            }
        }
    }

    async fn kill(&mut self, members: &[usize], until: Until) -> Result<()> {
        self.record.note(&format!("kill members {members:?}"))?;
        for member in members {
            self.cluster.kill(*member)?;
        }
        wait(&mut self.chance, 500..4_000, until).await;
        self.record.note(&format!("start members {members:?}"))?;
        for member in members {
            self.cluster.spawn_again(*member)?;
        }
        self.healthy().await
    }

    async fn pause(&mut self, member: usize, until: Until) -> Result<()> {
        self.record.note(&format!("pause member {member}"))?;
        self.cluster.pause(member)?;
        wait(&mut self.chance, 1_000..6_000, until).await;
        self.record.note(&format!("resume member {member}"))?;
        self.cluster.resume(member)?;
        self.healthy().await
    }

    async fn link(&mut self, member: usize, link: Link, until: Until) -> Result<()> {
        self.record.note(&format!("links to member {member} are {link:?}"))?;
        self.fleet.lock().await.link_member(member, link);
        wait(&mut self.chance, 1_000..5_000, until).await;
        self.record.note(&format!("links to member {member} are whole"))?;
        self.fleet.lock().await.link_member(member, Link::Whole);
        Ok(())
    }

    async fn sever(&mut self, member: usize, until: Until) -> Result<()> {
        let link = if self.chance.bool() { Link::Cut } else { Link::Silent };
        self.record.note(&format!("member {member} is severed, {link:?}"))?;
        self.cluster.link(member, link)?;
        wait(&mut self.chance, 1_000..6_000, until).await;
        self.record.note(&format!("member {member} is severed no more"))?;
        self.cluster.link(member, Link::Whole)?;
        self.healthy().await
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

    /// Fills the members up until they refuse, lets that be so for a while, and makes room.
    async fn fill(&mut self, until: Until) -> Result<()> {
        self.record.note("fill the quota")?;
        let leader = self.cluster.leader().await?;
        let operator = self.cluster.operator(leader).await?;
        let filling = Bytes::from(vec![0; FILLING]);
        let (mut key, mut revision) = (self.unused_key(), Revision::new(0));
        for _ in 0..2 * QUOTA / FILLING {
            // One key again and again, so that all but the last value is forgotten by compaction.
            match operator.compare_and_swap(key.clone(), revision, filling.clone()).await {
                Ok(Some(now)) => revision = now,
                Err(error) if error.to_string().contains("space exceeded") => break,
                // Whether it was written is not known, so another key it is.
                Ok(None) | Err(_) => (key, revision) = (self.unused_key(), Revision::new(0)),
            }
        }
        if operator.alarms().await? == 0 {
            bail!("the members have room for more than their quota");
        }
        self.record.note("the quota is full")?;
        wait(&mut self.chance, 2_000..5_000, until).await;
        self.make_room().await
    }

    fn unused_key(&mut self) -> Bytes {
        Bytes::from(format!("filling/{:x}", self.chance.u64(..)))
    }

    /// Makes room. A busy cluster may change its mind about who leads it, so this is tried again.
    async fn make_room(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.try_to_make_room().await {
                Ok(()) => return self.record.note("there is room again"),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(error) => self.record.note(&format!("there is no room yet: {error}"))?,
            }
            sleep(PAUSE).await;
        }
    }

    /// Compaction first, since only what is forgotten gives room back; then every member.
    async fn try_to_make_room(&self) -> Result<()> {
        self.compact().await?;
        for member in 0..self.cluster.len() {
            self.defragment(member).await?;
        }
        let leader = self.cluster.leader().await?;
        Ok(self.cluster.operator(leader).await?.disarm().await?)
    }

    /// The cluster is to run without a time limit, on a quota that is soon used up.
    async fn keep_room(&self) -> Result<()> {
        let leader = self.cluster.leader().await?;
        let operator = self.cluster.operator(leader).await?;
        let is_full = operator.status().await?.database_bytes > ROOMY;
        if is_full || operator.alarms().await? > 0 {
            self.make_room().await?;
        }
        Ok(())
    }

    /// Waits until every member answers again.
    async fn healthy(&mut self) -> Result<()> {
        match timeout(PATIENCE, self.cluster.answering()).await {
            Ok(answering) => answering?,
            Err(_) => bail!("a member does not answer any more"),
        }
        Ok(())
    }
}
