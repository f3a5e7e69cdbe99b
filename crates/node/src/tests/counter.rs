//! A service whose store refuses a stale fence: counters that must not lose acknowledged calls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use shardwright_contracts::Env;

use crate::testing::PausedEnv;
use crate::{Activation, CallContext, Deactivation, ObjectError, ObjectType};

/// The storage of counters: a fence and a number each.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: Mutex<BTreeMap<String, (u64, u64)>>,
    /// The fences of all activations of each counter.
    activations: Mutex<BTreeMap<String, Vec<u64>>>,
    active: Mutex<BTreeMap<String, u64>>,
    twice: AtomicBool,
    /// Whether deactivations hang.
    pub(super) clings: AtomicBool,
}

impl Rows {
    /// Reads a counter under a fence, so that no write with a lower one is accepted later.
    fn open(&self, id: &str, fence: u64) -> Result<u64, ObjectError> {
        let mut rows = self.rows.lock().unwrap();
        let row = rows.entry(id.to_owned()).or_default();
        if row.0 > fence {
            return Err(ObjectError::StaleFence);
        }
        row.0 = fence;
        let number = row.1;
        drop(rows);
        let mut activations = self.activations.lock().unwrap();
        activations.entry(id.to_owned()).or_default().push(fence);
        Ok(number)
    }

    fn write(&self, id: &str, fence: u64, number: u64) -> Result<(), ObjectError> {
        let mut rows = self.rows.lock().unwrap();
        let row = rows.entry(id.to_owned()).or_default();
        if row.0 > fence {
            return Err(ObjectError::StaleFence);
        }
        *row = (fence, number);
        Ok(())
    }

    /// The sum of all counters.
    pub(super) fn sum(&self) -> u64 {
        self.rows.lock().unwrap().values().map(|(_, number)| number).sum()
    }

    fn activated(&self, id: &str) {
        let mut active = self.active.lock().unwrap();
        let count = active.entry(id.to_owned()).or_default();
        *count += 1;
        if *count > 1 {
            self.twice.store(true, Ordering::Relaxed);
        }
    }

    fn deactivated(&self, id: &str) {
        let mut active = self.active.lock().unwrap();
        let count = active.entry(id.to_owned()).or_default();
        *count = count.saturating_sub(1);
    }

    /// Whether a counter was active on two nodes at the same time.
    pub(super) fn was_twice(&self) -> bool {
        self.twice.load(Ordering::Relaxed)
    }

    pub(super) fn activations(&self) -> BTreeMap<String, Vec<u64>> {
        self.activations.lock().unwrap().clone()
    }
}

/// An active counter.
pub(super) struct Number {
    id: String,
    number: u64,
}

/// Counters. A call takes a millisecond, mostly waiting for the store.
pub(super) struct Counter {
    pub(super) rows: Arc<Rows>,
    pub(super) env: PausedEnv,
}

impl ObjectType for Counter {
    type Object = Number;

    async fn activate(&self, activation: &Activation) -> Result<Number, ObjectError> {
        let id = activation.object.id.as_str().to_owned();
        self.rows.activated(&id);
        self.env.sleep(Duration::from_millis(1)).await;
        let fence = activation.fence.map_or(0, |fence| fence.as_raw());
        Ok(Number { number: self.rows.open(&id, fence)?, id })
    }

    async fn handle(
        &self,
        counter: &mut Number,
        context: &CallContext,
        method: &str,
        payload: Bytes,
    ) -> Result<Bytes, ObjectError> {
        let activation = context.activation();
        let number = &mut counter.number;
        match method {
            "add" => {
                self.env.sleep(Duration::from_millis(1)).await;
                let fence = activation.fence.map_or(0, |fence| fence.as_raw());
                self.rows.write(activation.object.id.as_str(), fence, *number + 1)?;
                *number += 1;
                Ok(Bytes::from(number.to_string()))
            }
            "get" => Ok(Bytes::from(number.to_string())),
            "panic" => panic!("as requested"),
            "wait" => {
                let millis = String::from_utf8_lossy(&payload).parse().unwrap();
                self.env.sleep(Duration::from_millis(millis)).await;
                Ok(Bytes::new())
            }
            // Waits, and then calls others, nested: `100 b c d`.
            "through" => {
                let text = String::from_utf8_lossy(&payload).into_owned();
                let mut words = text.splitn(3, ' ');
                let millis = words.next().and_then(|word| word.parse().ok()).unwrap();
                self.env.sleep(Duration::from_millis(millis)).await;
                let Some(next) = words.next() else { return Ok(Bytes::from_static(b"end")) };
                let rest = words.next().map_or("0".to_owned(), |rest| format!("0 {rest}"));
                Ok(context.call("Counter", next, "through", rest).await?)
            }
            other => Err(ObjectError::refused(format!("what is {other}?"))),
        }
    }

    async fn deactivate(&self, counter: Number, _why: Deactivation) {
        if self.rows.clings.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        self.env.sleep(Duration::from_millis(1)).await;
        self.rows.deactivated(&counter.id);
    }
}
