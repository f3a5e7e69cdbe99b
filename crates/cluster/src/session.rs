//! The session of a membership.

use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::{Env, InfraError};
use shardwright_engine::fault;
use shardwright_engine::keep_alive;
use shardwright_engine::watch;
use shardwright_placement::NodeInstance;
use shardwright_store::{Session, SessionError, SessionId, Store};
use tokio::sync::oneshot;

use super::shared::Core;

/// Whether a member may serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// It may, until this time on [`Env::monotonic`]. Until then no other node can have claimed its
    /// shards.
    Until(Duration),
    /// It may not any more: it is no longer a member.
    Ended,
}

/// A session that is kept alive while this value exists.
pub(super) struct KeptSession {
    pub(super) session: SessionId,
    serving: watch::Sender<Serving>,
    /// Dropping it stops the keep-alive, and the session expires.
    _alive: oneshot::Sender<()>,
}

/// A session that was opened and is not kept alive yet.
pub(super) struct Opened {
    pub(super) session: Session,
    /// A time before it was requested.
    requested_at: Duration,
}

impl KeptSession {
    pub(super) fn serving(&self) -> Serving {
        *self.serving.borrow()
    }

    pub(super) fn changes(&self) -> watch::Receiver<Serving> {
        self.serving.subscribe()
    }

    pub(super) fn end(&self) {
        self.serving.send_replace(Serving::Ended);
    }
}

impl Core {
    pub(super) async fn open_session(&self) -> Result<Opened, InfraError> {
        let requested_at = self.env.monotonic();
        let opened = self.store.open_session(self.options.session_ttl).await;
        let session = opened.map_err(|error| fault::session("cluster.session", &error))?;
        Ok(Opened { session, requested_at })
    }

    /// Closes a session.
    pub(super) async fn close_session(&self, session: SessionId) -> Result<(), InfraError> {
        match self.store.close_session(session).await {
            Ok(()) | Err(SessionError::Gone(_)) => Ok(()),
            Err(error) => Err(fault::session("cluster.leave", &error)),
        }
    }

    /// Keeps a session alive from now on. `own` is the node that is a member by it, or none for a
    /// gate.
    pub(super) fn keep(
        self: &Arc<Self>,
        opened: &Opened,
        own: Option<NodeInstance>,
    ) -> KeptSession {
        let Opened { session: Session { id, ttl }, requested_at } = *opened;
        let lasting = ttl.saturating_sub(self.options.session_margin);
        let (serving, _) = watch::channel(Serving::Until(requested_at.saturating_add(lasting)));
        let (alive, gone) = oneshot::channel();
        let keeper = SessionRenewer {
            core: Arc::clone(self),
            session: id,
            ttl,
            lasting,
            own,
            serving: serving.clone(),
        };
        self.env.spawn(Box::pin(keeper.run(gone)));
        KeptSession { session: id, serving, _alive: alive }
    }
}

/// The task that keeps a session alive.
struct SessionRenewer {
    core: Arc<Core>,
    session: SessionId,
    ttl: Duration,
    /// Time after a keep-alive request was sent during which the member may serve.
    lasting: Duration,
    own: Option<NodeInstance>,
    serving: watch::Sender<Serving>,
}

impl SessionRenewer {
    async fn run(self, mut gone: oneshot::Receiver<()>) {
        let mut views = self.core.views.subscribe();
        let send = || {
            let is_needed = *self.serving.borrow() != Serving::Ended;
            is_needed.then(|| self.core.store.keep_alive(self.session))
        };
        let kept = |sent_at| self.extend(sent_at);
        tokio::select! {
            biased;
            _ = &mut gone => return,
            () = keep_alive::keep_alive(&*self.core.env, self.ttl, send, kept) => {}
            () = self.removed(&mut views) => {}
        }
        self.serving.send_if_modified(|serving| {
            std::mem::replace(serving, Serving::Ended) != Serving::Ended
        });
    }

    fn extend(&self, sent_at: Duration) {
        let until = sent_at.saturating_add(self.lasting);
        self.serving.send_if_modified(|serving| match serving {
            Serving::Until(known) => {
                *known = until.max(*known);
                true
            }
            Serving::Ended => false,
        });
    }

    /// Waits until a view shows that the node is no longer a member.
    async fn removed(&self, views: &mut watch::Receiver<Arc<super::view::ClusterView>>) {
        loop {
            if let Some(own) = &self.own
                && !views.borrow_and_update().members.is_live(own.borrowed())
            {
                return;
            }
            if views.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
