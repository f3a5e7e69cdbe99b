use std::sync::Arc;

use anyhow::Result;
use shardwright_store::testing::Link;
use tokio::sync::Mutex;

use super::{Deck, Fault, Record, Until, wait};
use crate::fleet::Fleet;
use crate::plan::{LEASE_MS, SKEW_MS};

/// Troubles the workers.
#[derive(Debug)]
pub struct Workers<'n> {
    /// The processes.
    pub fleet: Arc<Mutex<Fleet>>,
    /// What is written down.
    pub record: &'n Record,
    /// What its choices depend on.
    pub chance: fastrand::Rng,
}

impl Workers<'_> {
    /// Causes faults, and leaves everything whole.
    pub async fn trouble(mut self, until: Until) -> Result<()> {
        let mut deck = Deck::new(Fault::OF_WORKERS);
        wait(&mut self.chance, 1_000..2_000, until).await;
        while !until.is_over(self.record) {
            let Some(fault) = deck.draw(&mut self.chance) else { break };
            let worker = {
                let mut fleet = self.fleet.lock().await;
                fleet.check()?;
                self.chance.usize(..fleet.len())
            };
            self.cause(fault, worker, until).await?;
            self.record.count(fault);
            wait(&mut self.chance, 300..1_500, until).await;
        }
        self.fleet.lock().await.check()
    }

    async fn cause(&mut self, fault: Fault, worker: usize, until: Until) -> Result<()> {
        match fault {
            Fault::KillWorker => {
                self.record.note(&format!("kill worker {worker}"))?;
                self.fleet.lock().await.replace(worker)
            }
            Fault::PauseWorker => {
                self.record.note(&format!("pause worker {worker}"))?;
                self.fleet.lock().await.pause(worker)?;
                let beyond = LEASE_MS + SKEW_MS;
                wait(&mut self.chance, beyond + 500..beyond + 2_500, until).await;
                self.record.note(&format!("resume worker {worker}"))?;
                self.fleet.lock().await.resume(worker)
            }
            Fault::LoseAnswers => {
                self.record.note("answers are lost")?;
                self.link_all(Link::Deaf).await?;
                wait(&mut self.chance, 100..900, until).await;
                self.record.note("answers are lost no more")?;
                self.link_all(Link::Whole).await
            }
            _ => {
                let links = [Link::Cut, Link::Silent, Link::Deaf];
                let link = *self.chance.choice(&links).unwrap_or(&Link::Cut);
                self.record.note(&format!("links of worker {worker} are {link:?}"))?;
                self.fleet.lock().await.link_worker(worker, link)?;
                wait(&mut self.chance, 1_000..5_000, until).await;
                self.record.note(&format!("links of worker {worker} are whole"))?;
                self.fleet.lock().await.link_worker(worker, Link::Whole)
            }
        }
    }

    async fn link_all(&self, link: Link) -> Result<()> {
        let mut fleet = self.fleet.lock().await;
        (0..fleet.len()).try_for_each(|worker| fleet.link_worker(worker, link))
    }
}
