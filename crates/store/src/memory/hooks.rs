//! Hooks of tests: before a call starts, and before it answers.

use std::future::{Future, ready};
use std::time::Duration;

use crate::commit::Commit;
use crate::error::Fault;
use crate::key::{Key, StoreRange};
use crate::store::{Revision, ScanFrom, SessionId};

/// A call, as the caller made it.
#[derive(Clone, Copy, Debug)]
pub enum HookedCall<'c> {
    /// [`Store::load`](crate::Store::load).
    Load(&'c [Key]),
    /// [`Store::scan`](crate::Store::scan).
    Scan(&'c StoreRange, &'c ScanFrom),
    /// [`Store::commit`](crate::Store::commit).
    Commit(&'c Commit),
    /// [`Store::watch`](crate::Store::watch).
    Watch(&'c StoreRange, Revision),
    /// [`Store::open_session`](crate::Store::open_session).
    OpenSession(Duration),
    /// [`Store::keep_alive`](crate::Store::keep_alive).
    KeepAlive(SessionId),
    /// [`Store::close_session`](crate::Store::close_session).
    CloseSession(SessionId),
}

/// How a hook lets a call continue.
#[derive(Clone, Debug)]
pub enum Before {
    /// Normally.
    Go,
    /// The store does nothing and returns the fault.
    Refuse(Fault),
    /// The store does nothing and reports damage.
    Damaged(Fault),
    /// The store does nothing and the request is lost. The outcome of a commit is unknown.
    Lose(Fault),
    /// A load, or the first page of a scan, reads an earlier revision, or the earliest that the
    /// store still has. Other calls continue normally.
    AsOf(Revision),
}

/// What the caller receives after the call.
#[derive(Clone, Debug)]
pub enum After {
    /// The answer.
    Answer,
    /// Nothing: the answer is lost. The outcome of a commit is unknown.
    Lose(Fault),
}

/// Intercepts the calls of one client. A hook that waits delays the call.
pub trait Hooks: Send + Sync + 'static {
    /// Runs before the call.
    fn before(&self, call: HookedCall<'_>) -> impl Future<Output = Before> + Send {
        let _unused = call;
        ready(Before::Go)
    }

    /// Runs after the call.
    fn after(&self, call: HookedCall<'_>) -> impl Future<Output = After> + Send {
        let _unused = call;
        ready(After::Answer)
    }
}

/// Hooks that do nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}
