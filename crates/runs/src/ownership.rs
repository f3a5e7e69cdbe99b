//! The session that the leases of a coordinator belong to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use shardwright_contracts::{Env, InfraError};
use shardwright_engine::fault;
use shardwright_engine::keep_alive;
use shardwright_engine::single_flight::SingleFlight;
use shardwright_store::{AnyStore, Session, SessionError, SessionId, Store};

use crate::config::LeaseBinding;
use crate::coordinator::Core;

const OPEN: &str = "session.open";
const CLOSE: &str = "session.close";

/// At most one session, opened on first use and again after its loss.
#[derive(Default)]
pub(crate) struct OwnerSession {
    current: Mutex<Option<SessionId>>,
    opening: SingleFlight,
}

impl OwnerSession {
    /// Closes the session, which ends all leases.
    pub(crate) async fn close(&self, store: &AnyStore) -> Result<(), InfraError> {
        // A session that is being opened is closed, too.
        let opening = self.opening.pause().await;
        let session = self.lock().take();
        drop(opening);
        let Some(session) = session else { return Ok(()) };
        match store.close_session(session).await {
            Ok(()) | Err(SessionError::Gone(_)) => Ok(()),
            Err(error) => Err(fault::session(CLOSE, &error)),
        }
    }

    /// Forgets a session that has ended.
    pub(crate) fn forget(&self, ended: SessionId) {
        let mut current = self.lock();
        if *current == Some(ended) {
            *current = None;
        }
    }

    fn current(&self) -> Option<SessionId> {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<SessionId>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// The session for new leases; none if leases end by their deadline alone.
    pub(crate) async fn session(self: &Arc<Self>) -> Result<Option<SessionId>, InfraError> {
        let LeaseBinding::Session { ttl } = self.config.sessions else { return Ok(None) };
        let open = async {
            let opened = self.store.open_session(ttl).await;
            let opened = opened.map_err(|error| fault::session(OPEN, &error))?;
            *self.sessions.lock() = Some(opened.id);
            let keeping = keep_alive(Arc::downgrade(self), Arc::clone(&self.env), opened);
            self.env.spawn(Box::pin(keeping));
            Ok(opened.id)
        };
        self.sessions.opening.get(|| self.sessions.current(), open).await.map(Some)
    }
}

/// Keeps a session alive until it ends, is replaced, or the coordinator is dropped.
async fn keep_alive(core: Weak<Core>, env: Arc<dyn Env>, Session { id, ttl }: Session) {
    let send = || {
        let core = core.upgrade().filter(|core| core.sessions.current() == Some(id))?;
        // An unanswered request must not keep a dropped coordinator alive.
        let store = core.store.clone();
        Some(async move { store.keep_alive(id).await })
    };
    keep_alive::keep_alive(&*env, ttl, send, |_| ()).await;
    if let Some(core) = core.upgrade() {
        core.sessions.forget(id);
    }
}
