use shardwright_contracts::{CursorUpdate, ShardSpecRef, SlabFull};
use shardwright_coordination::{ShardHead, ShardRecord, ShardState};

use crate::LOG;

/// A record that is copied when an operation first changes it, so that a refusal is seen to have
/// changed nothing and costs nothing.
pub(crate) struct Draft<'a> {
    base: &'a ShardRecord<LOG>,
    changed: Option<ShardRecord<LOG>>,
}

impl<'a> Draft<'a> {
    pub(crate) const fn new(base: &'a ShardRecord<LOG>) -> Self {
        Self { base, changed: None }
    }

    /// The record that an operation left, if it touched any.
    pub(crate) fn into_changed(self) -> Option<ShardRecord<LOG>> {
        self.changed
    }

    pub(crate) fn record(&self) -> &ShardRecord<LOG> {
        self.changed.as_ref().unwrap_or(self.base)
    }

    pub(crate) fn record_mut(&mut self) -> &mut ShardRecord<LOG> {
        self.changed.get_or_insert_with(|| self.base.clone())
    }
}

impl ShardState<LOG> for Draft<'_> {
    fn head(&self) -> &ShardHead<LOG> {
        &self.record().head
    }

    fn head_mut(&mut self) -> &mut ShardHead<LOG> {
        &mut self.record_mut().head
    }

    fn spec(&self) -> ShardSpecRef<'_> {
        self.record().spec()
    }

    fn cursor(&self) -> CursorUpdate<'_> {
        self.record().cursor()
    }

    fn set_cursor(&mut self, cursor: CursorUpdate<'_>) -> Result<(), SlabFull> {
        self.record_mut().set_cursor(cursor)
    }

    fn set_spec(&mut self, spec: ShardSpecRef<'_>) -> Result<(), SlabFull> {
        self.record_mut().set_spec(spec)
    }
}
