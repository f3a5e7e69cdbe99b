//! Hooks of tests: before a call does anything, and before it answers.

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

/// How a call goes on.
#[derive(Clone, Debug)]
pub enum Before {
    /// As it should.
    Go,
    /// Nothing is done, and the caller gets the fault.
    Refuse(Fault),
    /// Nothing is done, and the store is reported as damaged.
    Damaged(Fault),
    /// Nothing is done, and the caller learns nothing: the call got lost on its way. A commit is
    /// answered as unknown.
    Lose(Fault),
    /// A load, or the first page of a scan, shows what was there at an earlier moment, or at the
    /// earliest that is still known. Any other call goes on as it should.
    AsOf(Revision),
}

/// What the caller learns of what was done.
#[derive(Clone, Debug)]
pub enum After {
    /// All.
    Answer,
    /// Nothing: the answer got lost on its way. A commit is answered as unknown.
    Lose(Fault),
}

/// Steps in, on behalf of one client. A hook that waits delays the call.
pub trait Hooks: Send + Sync + 'static {
    /// Before anything is done.
    fn before(&self, call: HookedCall<'_>) -> impl Future<Output = Before> + Send {
        let _unused = call;
        ready(Before::Go)
    }

    /// After everything is done.
    fn after(&self, call: HookedCall<'_>) -> impl Future<Output = After> + Send {
        let _unused = call;
        ready(After::Answer)
    }
}

/// Never steps in.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}
