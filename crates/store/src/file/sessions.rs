//! The rows of sessions.

use rusqlite::{Connection, Row};

use super::apply::Changing;
use super::error::Trouble;
use crate::store::SessionId;

/// A session as it is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredSession {
    pub(super) id: SessionId,
    pub(super) owner: i64,
    pub(super) deadline_ms: i64,
}

pub(super) fn load_sessions(connection: &Connection) -> Result<Vec<StoredSession>, Trouble> {
    let sql = "SELECT id, owner, deadline_ms FROM session ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        let id = SessionId::new(row.get::<_, i64>(0)?.cast_unsigned());
        Ok(StoredSession { id, owner: row.get(1)?, deadline_ms: row.get(2)? })
    };
    let sessions = statement.query_map([], read)?;
    Ok(sessions.collect::<Result<_, _>>()?)
}

impl Changing<'_> {
    pub(super) fn sessions(&self) -> Result<Vec<StoredSession>, Trouble> {
        load_sessions(self.connection())
    }

    pub(super) fn has_session(&self, session: SessionId) -> Result<bool, Trouble> {
        let sql = "SELECT 1 FROM session WHERE id = ?1";
        let mut statement = self.connection().prepare_cached(sql)?;
        Ok(statement.exists([session.get().cast_signed()])?)
    }
}
