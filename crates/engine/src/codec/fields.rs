//! Fields that several kinds of record have.

use std::num::NonZeroU32;

use shardwright_contracts::{CanonicalBytes, CanonicalSink, Cursor, CursorUpdate, ShardSpec};
use shardwright_coordination::{LeaseHolder, OpLog, OpLogEntry, RunConfig};
use shardwright_placement::NodeAddress;

use super::error::{DecodeError, Problem};
use super::reader::{List, Reader};

/// Bytes of one entry of an op log: id, kind, result, fingerprint, time.
const OP_LOG_ENTRY_BYTES: usize = 8 + 1 + 1 + 8 + 8;

pub(super) fn put_flag<S: CanonicalSink + ?Sized>(sink: &mut S, flag: bool) {
    sink.put_u8(u8::from(flag));
}

/// Appends a presence byte, and the value if there is one.
pub(super) fn put_optional<T, S: CanonicalSink + ?Sized>(
    sink: &mut S,
    value: Option<T>,
    put: impl FnOnce(&mut S, T),
) {
    put_flag(sink, value.is_some());
    if let Some(value) = value {
        put(sink, value);
    }
}

pub(super) fn put_config<S: CanonicalSink + ?Sized>(sink: &mut S, config: &RunConfig) {
    let RunConfig { cursor_semantics, lease_duration_ms, max_shard_retries } = config;
    cursor_semantics.write_canonical(sink);
    sink.put_u64(lease_duration_ms.get());
    put_optional(sink, max_shard_retries.map(NonZeroU32::get), S::put_u32);
}

pub(super) fn put_lease<S: CanonicalSink + ?Sized>(sink: &mut S, lease: LeaseHolder) {
    let LeaseHolder { owner, deadline } = lease;
    owner.write_canonical(sink);
    deadline.write_canonical(sink);
}

pub(super) fn put_op_log<const CAPACITY: usize, S: CanonicalSink + ?Sized>(
    sink: &mut S,
    log: &OpLog<CAPACITY>,
) {
    sink.put_len(log.len());
    for entry in log.entries() {
        let OpLogEntry { op, kind, result, payload_hash, executed_at } = entry;
        op.write_canonical(sink);
        kind.write_canonical(sink);
        result.write_canonical(sink);
        sink.put_u64(*payload_hash);
        executed_at.write_canonical(sink);
    }
}

impl Reader<'_> {
    pub(super) fn address(&mut self) -> Result<NodeAddress, DecodeError> {
        let (offset, text) = self.text("address")?;
        NodeAddress::parse(text).map_err(|error| self.fail_at(offset, Problem::Address(error)))
    }

    pub(super) fn config(&mut self) -> Result<RunConfig, DecodeError> {
        let offset = self.offset();
        let cursor_semantics = self.choice("cursor semantics")?;
        let lease_duration_ms = self.u64()?;
        let max_shard_retries = self.optional(Self::u32)?;
        RunConfig::try_new(cursor_semantics, lease_duration_ms, max_shard_retries)
            .map_err(|error| self.fail_at(offset, Problem::Config(error)))
    }

    pub(super) fn lease(&mut self) -> Result<LeaseHolder, DecodeError> {
        Ok(LeaseHolder { owner: self.worker()?, deadline: self.time()? })
    }

    pub(super) fn spec(&mut self) -> Result<ShardSpec, DecodeError> {
        let offset = self.offset();
        let (start, end, metadata) = (self.bytes()?, self.bytes()?, self.bytes()?);
        ShardSpec::try_new(start, end, metadata)
            .map_err(|error| self.fail_at(offset, Problem::Spec(error)))
    }

    pub(super) fn cursor(&mut self) -> Result<Cursor, DecodeError> {
        let offset = self.offset();
        let (last_key, token) = (self.optional(Self::bytes)?, self.optional(Self::bytes)?);
        if token.is_some_and(<[u8]>::is_empty) {
            return Err(self.fail_at(offset, Problem::EmptyToken));
        }
        Cursor::try_from_update(CursorUpdate::new(last_key, token))
            .map_err(|error| self.fail_at(offset, Problem::Cursor(error)))
    }

    /// A log with room for all that it may ever hold, so that the next operation finds it.
    pub(super) fn op_log<const CAPACITY: usize>(&mut self) -> Result<OpLog<CAPACITY>, DecodeError> {
        let list = List {
            what: "remembered operations",
            max: CAPACITY,
            item_bytes: OP_LOG_ENTRY_BYTES,
            reserve: CAPACITY,
        };
        self.list(list, Self::op_log_entry).map(OpLog::from_entries)
    }

    fn op_log_entry(&mut self) -> Result<OpLogEntry, DecodeError> {
        Ok(OpLogEntry {
            op: self.op()?,
            kind: self.choice("operation kind")?,
            result: self.choice("operation result")?,
            payload_hash: self.u64()?,
            executed_at: self.time()?,
        })
    }
}
