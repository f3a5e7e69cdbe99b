//! A backend of the sync traits as a [`Backend`]: a mutex and a clock around it.

use std::sync::{Mutex, MutexGuard};

use shardwright_contracts::{BoxFuture, TenantId};

use crate::async_traits::Clock;
use crate::backend::Backend;
use crate::error::InfraError;
use crate::operation::{Answer, Request};
use crate::traits::CoordinationBackend;

/// Makes a backend shareable: one call at a time, at the clock's time.
#[derive(Debug)]
pub struct Synchronized<B, C> {
    backend: Mutex<B>,
    clock: C,
}

impl<B, C> Synchronized<B, C> {
    /// Puts a mutex and a clock around a backend.
    pub const fn new(backend: B, clock: C) -> Self {
        Self { backend: Mutex::new(backend), clock }
    }

    /// The backend itself, locked. A backend whose operation panicked on a broken invariant cannot
    /// be used again.
    pub fn lock(&self) -> Result<MutexGuard<'_, B>, InfraError> {
        self.backend.lock().map_err(|_| InfraError::Corrupt {
            operation: "synchronized.lock",
            message: "an earlier operation found a broken record in the backend".into(),
        })
    }
}

impl<B: CoordinationBackend + Send, C: Clock> Backend for Synchronized<B, C> {
    fn call<'a>(&'a self, tenant: TenantId, request: Request<&'a [u8]>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let mut backend = self.lock()?;
            // Read the clock under the lock, or waiting for the lock would shorten the lease.
            backend.call(self.clock.now(), tenant, request)
        })
    }
}

#[cfg(test)]
mod tests;
