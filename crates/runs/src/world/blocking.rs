//! An async backend for blocking callers: the sync traits over a [`Backend`].

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use shardwright_contracts::{LogicalTime, TenantId};
use shardwright_coordination::{
    Answer, Backend, CoordinationBackend, Request, RunManagement, ShardClaiming,
};
use tokio::runtime::{Builder, Runtime};

/// A [`Backend`] as one of the sync traits.
///
/// It has its own runtime, whose thread keeps sessions alive and follows watches between calls. A
/// call blocks its thread until it is answered. It may be made within another runtime, but blocks
/// the tasks of that thread.
///
/// The backend has its own clock. So `now` of the sync traits is ignored, except to convert an
/// absolute time in a request to a duration.
pub struct Blocking<B> {
    backend: B,
    /// Taken when this is dropped.
    runtime: Option<Runtime>,
}

/// Error of opening a blocking backend.
#[derive(Debug, thiserror::Error)]
pub enum BlockingError<E> {
    /// Its runtime cannot be started.
    #[error("the runtime of the blocking backend cannot be started")]
    Runtime(#[source] io::Error),
    /// The backend cannot be opened.
    #[error(transparent)]
    Backend(E),
}

impl<B> Blocking<B> {
    /// Starts a runtime and opens a backend on it.
    pub fn open<E>(opening: impl Future<Output = Result<B, E>>) -> Result<Self, BlockingError<E>> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("shardwright-blocking")
            .enable_all()
            .build()
            .map_err(BlockingError::Runtime)?;
        match wait(&runtime, opening) {
            Ok(backend) => Ok(Self { backend, runtime: Some(runtime) }),
            Err(error) => {
                runtime.shutdown_background();
                Err(BlockingError::Backend(error))
            }
        }
    }

    /// The backend.
    pub const fn backend(&self) -> &B {
        &self.backend
    }

    /// Blocks until a call of the backend returns.
    pub fn wait_for<'b, T, F: Future<Output = T>>(&'b self, call: impl FnOnce(&'b B) -> F) -> T {
        let call = call(&self.backend);
        match &self.runtime {
            Some(runtime) => wait(runtime, call),
            // Only a value that is being dropped has no runtime.
            None => park_on(call),
        }
    }
}

impl<B: Backend> CoordinationBackend for Blocking<B> {
    fn call(&mut self, _now: LogicalTime, tenant: TenantId, request: Request<&[u8]>) -> Answer {
        self.wait_for(|backend| backend.call(tenant, request))
    }
}

impl<B: Backend> RunManagement for Blocking<B> {}

impl<B: Backend> ShardClaiming for Blocking<B> {}

impl<B> Drop for Blocking<B> {
    fn drop(&mut self) {
        // Waiting for tasks is not allowed in async code. The tasks end with the backend.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl<B: std::fmt::Debug> std::fmt::Debug for Blocking<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocking").field("backend", &self.backend).finish_non_exhaustive()
    }
}

/// Runs a future on this thread, with its timers and tasks on the runtime. Unlike
/// `Runtime::block_on`, it works within a task of another runtime. Such a task has a cooperative
/// budget, which would suspend the future, so the future is exempt from it.
fn wait<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    let _entered = runtime.enter();
    park_on(tokio::task::unconstrained(future))
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn park_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            // The thread may also be unparked by others. An extra poll is harmless.
            Poll::Pending => thread::park(),
        }
    }
}
