//! One attempt for all callers that wait for the same result.

use std::sync::{Mutex, MutexGuard, PoisonError};

use shardwright_contracts::InfraError;

/// One caller at a time makes an attempt. The others get its result, even if it is a failure. If
/// each of them tried by itself, the last one would wait for as many timeouts as there are callers.
#[derive(Default)]
pub struct SingleFlight {
    turn: tokio::sync::Mutex<()>,
    failures: Mutex<Failures>,
}

#[derive(Default)]
struct Failures {
    count: u64,
    /// Error of the last attempt, if it failed.
    last: Option<InfraError>,
}

impl SingleFlight {
    /// Returns the existing result, or the result of an attempt. A caller that waited while an
    /// attempt failed gets that failure and makes no attempt of its own.
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
        let outcome = attempt.await;
        self.note(outcome.as_ref().err());
        outcome
    }

    /// Waits until no attempt runs, and prevents attempts while the guard lives.
    pub async fn pause(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Whether an attempt runs after a failed one.
    pub(crate) fn is_retrying(&self) -> bool {
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
