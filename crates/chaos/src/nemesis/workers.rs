use std::sync::Arc;

use anyhow::Result;
use shardwright_store::testing::Link;
use tokio::sync::Mutex;

use super::{Deck, Fault, Record, Until, wait};
use crate::fleet::Fleet;
use crate::plan::{LEASE_MS, SKEW_MS};

/// Injects faults of workers.
#[derive(Debug)]
pub struct Workers<'n> {
    /// The processes.
    pub fleet: Arc<Mutex<Fleet>>,
    /// The record of faults.
    pub record: &'n Record,
    /// Source of random choices.
    pub rng: fastrand::Rng,
}

impl Workers<'_> {
    /// Injects faults, and recovers from each.
    pub async fn inject(mut self, until: Until) -> Result<()> {
        let mut deck = Deck::new(Fault::OF_WORKERS);
        wait(&mut self.rng, 1_000..2_000, until).await;
        while !until.is_over(self.record) {
            let Some(fault) = deck.draw(&mut self.rng) else { break };
            let worker = {
                let mut fleet = self.fleet.lock().await;
                fleet.check()?;
                self.rng.usize(..fleet.len())
            };
            self.inject_fault(fault, worker, until).await?;
            self.record.count(fault);
            wait(&mut self.rng, 300..1_500, until).await;
        }
        self.fleet.lock().await.check()
    }

    async fn inject_fault(&mut self, fault: Fault, worker: usize, until: Until) -> Result<()> {
        match fault {
            Fault::KillWorker => {
                self.record.note(&format!("kill worker {worker}"))?;
                self.fleet.lock().await.replace(worker)
            }
            Fault::PauseWorker => {
                self.record.note(&format!("pause worker {worker}"))?;
                self.fleet.lock().await.pause(worker)?;
                let beyond = LEASE_MS + SKEW_MS;
                wait(&mut self.rng, beyond + 500..beyond + 2_500, until).await;
                self.record.note(&format!("resume worker {worker}"))?;
                self.fleet.lock().await.resume(worker)
            }
            Fault::LoseAnswers => {
                self.record.note("lose answers")?;
                self.link_all(Link::Deaf).await?;
                wait(&mut self.rng, 100..900, until).await;
                self.record.note("deliver answers again")?;
                self.link_all(Link::Whole).await
            }
            _ => {
                let links = [Link::Cut, Link::Silent, Link::Deaf];
                let link = *self.rng.choice(&links).unwrap_or(&Link::Cut);
                self.record.note(&format!("links of worker {worker} are {link:?}"))?;
                self.fleet.lock().await.link_worker(worker, link)?;
                wait(&mut self.rng, 1_000..5_000, until).await;
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
