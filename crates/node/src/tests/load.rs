//! Clients that call without pause and never retry.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use shardwright_api::Effect;
use tokio::task::JoinHandle;

use super::world::{World, call};
use crate::Gate;

/// The outcomes of all calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) answered: u64,
    pub(super) not_executed: u64,
    pub(super) unknown: u64,
}

/// Running clients.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Tally>>,
}

const CLIENTS: u64 = 16;
const IDS: u64 = 200;

impl Load {
    /// Increments counters in the whole cluster, from many clients.
    pub(super) fn start(gate: &Arc<Gate>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let next = Arc::new(AtomicU64::new(0));
        let client = |_| {
            let (gate, stop, next) = (Arc::clone(gate), Arc::clone(&stop), Arc::clone(&next));
            tokio::spawn(async move {
                let mut tally = Tally::default();
                while !stop.load(Ordering::Relaxed) {
                    let id = next.fetch_add(7, Ordering::Relaxed) % IDS;
                    match gate.call(call(&format!("counter-{id}"), "add")).await {
                        Ok(_) => tally.answered += 1,
                        Err(error) if error.effect() == Effect::NotExecuted => {
                            tally.not_executed += 1;
                        }
                        Err(_) => tally.unknown += 1,
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                tally
            })
        };
        Self { stop: Arc::clone(&stop), clients: (0..CLIENTS).map(client).collect() }
    }

    /// Stops, and returns the outcomes of all calls.
    pub(super) async fn stop(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Tally::default();
        for client in self.clients {
            let tally = client.await.unwrap();
            sum.answered += tally.answered;
            sum.not_executed += tally.not_executed;
            sum.unknown += tally.unknown;
        }
        sum
    }
}

/// Checks that no call failed, each is counted once, and no counter was active twice.
pub(super) fn assert_nothing_failed(world: &World, tally: Tally) {
    assert_eq!((tally.not_executed, tally.unknown), (0, 0), "{tally:?}");
    assert!(tally.answered > 500, "{tally:?}");
    assert_eq!(world.rows.sum(), tally.answered);
    assert!(!world.rows.was_twice());
}
