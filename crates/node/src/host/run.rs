//! Runs one call.
//!
//! The call runs in a separate task, because its caller may drop the future at any time, and an
//! object must not be left half-done. The call holds the shard and the object to its end. It is
//! cancelled, and the object dropped, only if the node may lose the shard or the call far exceeds
//! its timeout.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use shardwright_api::limits::MAX_PAYLOAD_SIZE;
use shardwright_api::{CallError, UnknownWhy};
use shardwright_contracts::Env;
use tokio::sync::oneshot;

use super::cell::{CellState, LiveObject};
use super::residents::Resting;
use super::{ObjectHost, ObjectLock};
use crate::call::{Call, CallKind};
use crate::context::{CallContext, Caller};
use crate::object::{Activation, Deactivation, ObjectError};
use crate::waiting::within;

/// Decides whether a call is executed: it starts, or its caller abandons it first.
struct Begin(AtomicU8);

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const ABANDONED: u8 = 2;

impl Begin {
    const fn new() -> Self {
        Self(AtomicU8::new(WAITING))
    }

    /// Returns whether the call may be executed. It counts as executed from then on.
    fn begin(&self) -> bool {
        self.settle(BEGUN)
    }

    /// Returns whether the call surely will not be executed.
    fn abandon(&self) -> bool {
        self.settle(ABANDONED)
    }

    fn settle(&self, to: u8) -> bool {
        let was = self.0.compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire);
        was.is_ok_and(|was| was == WAITING)
    }
}

/// What a task needs to run a call.
struct Running {
    host: Arc<ObjectHost>,
    call: Call,
    deadline: Duration,
    begin: Arc<Begin>,
    activation: Activation,
    // The last field, so that the shard is released last.
    lock: ObjectLock,
}

impl ObjectHost {
    /// Runs a call that holds its object.
    pub(super) async fn run(
        self: &Arc<Self>,
        lock: ObjectLock,
        call: Call,
        deadline: Duration,
    ) -> Result<Bytes, CallError> {
        let begin = Arc::new(Begin::new());
        let running = self.running(lock, call, deadline, &begin)?;
        self.apart(running, |running| running.finish()).await
    }

    /// Activates an object that is locked.
    pub(super) async fn activate(
        self: &Arc<Self>,
        lock: ObjectLock,
        call: Call,
        deadline: Duration,
    ) -> Result<(), CallError> {
        let begin = Arc::new(Begin::new());
        let running = self.running(lock, call, deadline, &begin)?;
        self.apart(running, |running| running.only_activate()).await
    }

    fn running(
        self: &Arc<Self>,
        lock: ObjectLock,
        call: Call,
        deadline: Duration,
        begin: &Arc<Begin>,
    ) -> Result<Running, CallError> {
        let shard = self.sharding.shard_of(call.target.id.borrowed());
        let shard = shard.map_err(|error| CallError::InvalidId(error.to_string()))?;
        let (object, fence) = (call.target.clone(), lock.admitted.fence);
        let activation = Activation { object, shard, fence };
        let (host, begin) = (Arc::clone(self), Arc::clone(begin));
        Ok(Running { host, call, deadline, begin, activation, lock })
    }

    /// Runs work in a separate task, and waits for it until the deadline.
    async fn apart<T, F>(
        self: &Arc<Self>,
        running: Running,
        work: impl FnOnce(Running) -> F,
    ) -> Result<T, CallError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, CallError>> + Send + 'static,
    {
        let (deadline, begin) = (running.deadline, Arc::clone(&running.begin));
        let (answer, answered) = oneshot::channel();
        let task = work(running);
        self.env.spawn(Box::pin(async move {
            // The caller may have been dropped.
            let _ = answer.send(task.await);
        }));
        match within(&*self.env, deadline, answered).await {
            Some(Ok(answer)) => answer,
            Some(Err(_gone)) => Err(CallError::Unknown(UnknownWhy::Lost)),
            None if begin.abandon() => Err(CallError::Late),
            None => Err(CallError::Unknown(UnknownWhy::Late)),
        }
    }
}

impl Running {
    async fn finish(mut self) -> Result<Bytes, CallError> {
        let started = self.host.env.monotonic();
        let result = match self.unless_cancelled(Self::activate).await? {
            Ok(live) => self.unless_cancelled(|running| running.execute(live)).await?,
            Err(error) => Err(error),
        };
        let busy = self.host.env.monotonic().saturating_sub(started);
        self.lock.admitted.slot().count_load(busy);
        self.acknowledge(result)
    }

    async fn only_activate(mut self) -> Result<(), CallError> {
        let live = self.unless_cancelled(Self::activate).await??;
        self.rest(live);
        Ok(())
    }

    /// Runs a part of the work, unless the node may lose the shard or the work takes far too long.
    async fn unless_cancelled<'a, T, F: Future<Output = T>>(
        &'a mut self,
        work: impl FnOnce(&'a mut Self) -> F,
    ) -> Result<T, CallError> {
        let token = self.lock.token.clone();
        if !self.host.serving.may_serve() {
            return Err(self.not_serving());
        }
        let (env, begin) = (Arc::clone(&self.host.env), Arc::clone(&self.begin));
        let limit = self.deadline.saturating_add(self.host.options.overrun_max);
        let cancelled = |why, not_begun| {
            if begin.abandon() { not_begun } else { CallError::Unknown(why) }
        };
        tokio::select! {
            biased;
            done = within(&*env, limit, work(self)) => {
                done.ok_or_else(|| cancelled(UnknownWhy::Late, CallError::Late))
            }
            () = token.over() => Err(cancelled(UnknownWhy::NotServing, CallError::NotServing)),
        }
    }

    fn not_serving(&self) -> CallError {
        if self.begin.abandon() {
            CallError::NotServing
        } else {
            CallError::Unknown(UnknownWhy::NotServing)
        }
    }

    /// Takes the object out of its cell, and activates it if necessary.
    async fn activate(&mut self) -> Result<LiveObject, CallError> {
        match std::mem::replace(&mut *self.lock.entered.state, CellState::Gone) {
            CellState::Active(mut live) => {
                live.wake();
                return Ok(live);
            }
            CellState::Inactive | CellState::Gone => {}
        }
        let types = &self.host.types;
        let object_type = types.get(&self.activation.object.object_type)?;
        let residence = self.host.make_room(&self.activation.object).await;
        let activating = async { object_type.activate(&self.activation).await };
        // After a failure the next call tries again, with a new cell.
        match AssertUnwindSafe(activating).catch_unwind().await {
            Ok(Ok(object)) => Ok(LiveObject { object, residence }),
            Ok(Err(error)) => Err(error.of_activation(&self.activation)),
            Err(_panic) => Err(CallError::Activation("its code panicked".to_owned())),
        }
    }

    /// Puts the object back into its cell.
    fn rest(&mut self, mut live: LiveObject) {
        let since = self.host.env.monotonic();
        let Activation { object: key, shard, .. } = &self.activation;
        live.rest(|| Resting { since, shard: *shard, key: key.clone() });
        *self.lock.entered.state = CellState::Active(live);
    }

    async fn execute(&mut self, live: LiveObject) -> Result<Bytes, CallError> {
        let Some(caller) = self.host.caller.upgrade() else { return Err(CallError::NotServing) };
        if !self.begin.begin() {
            self.rest(live);
            return Err(CallError::Late);
        }
        match self.call.kind {
            CallKind::Invoke => self.handle(live, caller).await,
            CallKind::Delete => delete(live).await,
        }
    }

    async fn handle(
        &mut self,
        mut live: LiveObject,
        caller: Arc<dyn Caller>,
    ) -> Result<Bytes, CallError> {
        let context = self.context(caller);
        let payload = std::mem::take(&mut self.call.payload);
        let method = Arc::clone(&self.call.method);
        let handling = async { live.object.handle(&context, &method, payload).await };
        let handled = AssertUnwindSafe(handling).catch_unwind().await;
        // After a panic or a stale fence, the state may be half-done or out of date.
        if !matches!(handled, Err(_) | Ok(Err(ObjectError::StaleFence))) {
            self.rest(live);
        }
        match handled {
            Ok(answer) => answer.map_err(|error| error.of_call(&self.activation)),
            Err(_panic) => Err(CallError::Panicked),
        }
    }

    fn context(&self, caller: Arc<dyn Caller>) -> CallContext {
        CallContext {
            activation: self.activation.clone(),
            chain: self.call.chain.with(self.call.target.clone()),
            origin: self.call.origin.clone(),
            deadline: self.deadline,
            caller,
            token: self.lock.token.clone(),
        }
    }

    /// The result for the caller. If the node may have lost the shard meanwhile, the outcome is
    /// unknown: another node may have served the object since.
    fn acknowledge(&self, result: Result<Bytes, CallError>) -> Result<Bytes, CallError> {
        let lost = self.lock.admitted.slot().held().is_none();
        if !self.host.serving.may_serve() || lost {
            return Err(self.not_serving());
        }
        match result {
            Ok(answer) if answer.len() > MAX_PAYLOAD_SIZE => {
                // It was executed, so the error must not deny that.
                let size = answer.len();
                let why = format!("an answer of {size} bytes, at most {MAX_PAYLOAD_SIZE} are sent");
                Err(CallError::Refused(why))
            }
            result => result,
        }
    }
}

/// Deactivates an object for good. Calls that wait for it activate it again.
async fn delete(live: LiveObject) -> Result<Bytes, CallError> {
    let deleting = AssertUnwindSafe(live.deactivate(Deactivation::Deleted)).catch_unwind();
    deleting.await.map_or(Err(CallError::Panicked), |()| Ok(Bytes::new()))
}
