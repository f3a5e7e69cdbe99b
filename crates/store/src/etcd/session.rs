//! Sessions are leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::client::Repeat;
use super::connection::Connection;
use super::store::{Shared, store_error};
use super::verdict::Saying;
use super::wire::{LeaseGrantRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest};
use crate::error::SessionError;
use crate::store::{Session, SessionId};

/// Opens a session of whole seconds, at least one; the server may give more.
pub(crate) async fn open(shared: &Shared, ttl: Duration) -> Result<Session, SessionError> {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    let ttl = i64::try_from(seconds.max(1)).unwrap_or(i64::MAX);
    let send = |connection: Arc<Connection>, limit| {
        let request = connection.request(LeaseGrantRequest { ttl, id: 0 }, limit);
        async move { connection.lease().lease_grant(request).await }
    };
    // A session that nobody has heard of ends by itself.
    let granted = shared.client.call("a new session", Repeat::Freely, send).await;
    let granted = granted.map_err(store_error)?;
    Ok(Session {
        id: SessionId::new(granted.id.cast_unsigned()),
        ttl: Duration::from_secs(granted.ttl.unsigned_abs()),
    })
}

/// Ends a session.
pub(crate) async fn close(shared: &Shared, session: SessionId) -> Result<(), SessionError> {
    let asked_before = AtomicBool::new(false);
    let asked_twice = AtomicBool::new(false);
    let send = |connection: Arc<Connection>, limit| {
        if asked_before.swap(true, Ordering::Relaxed) {
            asked_twice.store(true, Ordering::Relaxed);
        }
        let id = session.get().cast_signed();
        let request = connection.request(LeaseRevokeRequest { id }, limit);
        async move { connection.lease().lease_revoke(request).await }
    };
    match shared.client.call("the end of a session", Repeat::Freely, send).await {
        Ok(_) => Ok(()),
        // The first time may have ended it, and only the answer was lost.
        Err(trouble) if trouble.saying == Some(Saying::LeaseNotFound) => {
            if asked_twice.load(Ordering::Relaxed) {
                Ok(())
            } else {
                Err(SessionError::Gone(session))
            }
        }
        Err(trouble) => Err(store_error(trouble).into()),
    }
}

/// Whether a session has ended, as far as can be known.
pub(crate) async fn is_gone(shared: &Shared, session: SessionId) -> bool {
    let send = |connection: Arc<Connection>, limit| {
        let id = session.get().cast_signed();
        let request = connection.request(LeaseTimeToLiveRequest { id }, limit);
        async move { connection.lease().lease_time_to_live(request).await }
    };
    match shared.client.call("the time of a session", Repeat::Freely, send).await {
        Ok(answer) => answer.ttl < 0,
        Err(trouble) => trouble.saying == Some(Saying::LeaseNotFound),
    }
}
