use shardwright_contracts::{CursorUpdate, ShardSpecRef, SlabFull};
use shardwright_coordination::{ShardHead, ShardRecord, ShardState};

use crate::LOG;

/// A copy-on-write record. A refusal costs no copy, and the absence of a copy shows that it changed
/// nothing.
pub(crate) struct Draft<'a> {
    base: &'a ShardRecord<LOG>,
    changed: Option<ShardRecord<LOG>>,
}

impl<'a> Draft<'a> {
    pub(crate) const fn new(base: &'a ShardRecord<LOG>) -> Self {
        Self { base, changed: None }
    }

    /// The changed record, if the operation wrote to it.
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
