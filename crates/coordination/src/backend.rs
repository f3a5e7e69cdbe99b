//! The interface of a backend: one method that answers requests.

use std::future::pending;
use std::sync::Arc;

use shardwright_contracts::{BoxFuture, RunId, TenantId};

use crate::operation::{Answer, Operation, Request, narrow};

/// A backend of the run protocol: stored, in memory, remote, or a wrapper around another one.
///
/// The trait works as `Arc<dyn Backend>`. Callers use the methods of the traits in
/// [`crate::async_traits`], [`crate::directory`] and [`crate::estimate`], which every backend has.
pub trait Backend: Send + Sync {
    /// Executes a request in the name of `tenant`, at the backend's own time.
    ///
    /// Every backend keeps these promises:
    ///
    /// - a tenant never sees or changes the shards of another;
    /// - at most one writer of a shard is accepted per fence;
    /// - an operation id has one effect;
    /// - a cursor never moves back or out of its shard;
    /// - children tile their parent.
    fn call<'a>(&'a self, tenant: TenantId, request: Request<&'a [u8]>) -> BoxFuture<'a, Answer>;

    /// Waits until a shard of the run may have become claimable. A backend without notifications
    /// waits forever, so callers set a timeout.
    fn claimable<'a>(&'a self, tenant: TenantId, run: RunId) -> BoxFuture<'a, ()> {
        let _ = (tenant, run);
        Box::pin(pending())
    }
}

impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn call<'a>(&'a self, tenant: TenantId, request: Request<&'a [u8]>) -> BoxFuture<'a, Answer> {
        (**self).call(tenant, request)
    }

    fn claimable<'a>(&'a self, tenant: TenantId, run: RunId) -> BoxFuture<'a, ()> {
        (**self).claimable(tenant, run)
    }
}

impl<B: Backend + ?Sized> Backend for &B {
    fn call<'a>(&'a self, tenant: TenantId, request: Request<&'a [u8]>) -> BoxFuture<'a, Answer> {
        (**self).call(tenant, request)
    }

    fn claimable<'a>(&'a self, tenant: TenantId, run: RunId) -> BoxFuture<'a, ()> {
        (**self).claimable(tenant, run)
    }
}

/// Executes one operation and narrows the answer to its types.
pub async fn execute<'a, O: Operation<&'a [u8]>>(
    backend: &'a (impl Backend + ?Sized),
    tenant: TenantId,
    operation: O,
) -> Result<O::Output, O::Error> {
    narrow::<_, O>(backend.call(tenant, operation.into()).await)
}
