//! Doing once what many wait for.

use std::sync::{Mutex, MutexGuard, PoisonError};

use shardwright_contracts::InfraError;

/// One at a time tries, and the others find what came of it, also if that is a failure: if each of
/// them had to try for itself, the last would wait for all others, each as long as a store takes
/// that does not answer.
#[derive(Default)]
pub struct SingleFlight {
    turn: tokio::sync::Mutex<()>,
    failures: Mutex<Failures>,
}

#[derive(Default)]
struct Failures {
    count: u64,
    /// Of the last attempt, if it failed.
    last: Option<InfraError>,
}

impl SingleFlight {
    /// What is there already, or what an attempt comes to. Whoever asked before an attempt failed
    /// is told so and does not make another one.
    pub async fn get<T>(
        &self,
        found: impl Fn() -> Option<T>,
        attempt: impl Future<Output = Result<T, InfraError>>,
    ) -> Result<T, InfraError> {
        if let Some(found) = found() {
            return Ok(found);
        }
        let failures_before = self.failures().count;
        let _turn = self.turn.lock().await;
        if let Some(found) = found() {
            return Ok(found);
        }
        if let Some(failure) = self.failure_since(failures_before) {
            return Err(failure);
        }
        let came_of_it = attempt.await;
        self.note(came_of_it.as_ref().err());
        came_of_it
    }

    /// Waits until nobody tries.
    pub async fn pause(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Whether somebody tries just now though the attempt before has failed.
    pub fn is_trying_in_vain(&self) -> bool {
        self.turn.try_lock().is_err() && self.failures().last.is_some()
    }

    fn failure_since(&self, count: u64) -> Option<InfraError> {
        let failures = self.failures();
        failures.last.clone().filter(|_| failures.count > count)
    }

    fn note(&self, failure: Option<&InfraError>) {
        let mut failures = self.failures();
        failures.last = failure.cloned();
        failures.count = failures.count.saturating_add(u64::from(failure.is_some()));
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
