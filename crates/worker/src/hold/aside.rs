//! Splitting off an item that waits for a retry.
//!
//! Everything before the item is committed. The item becomes a shard of its own, with its tries in
//! the metadata, and goes on without the slot. The slot acquires everything after the item, and
//! keeps what it has in hand of it.

use std::time::Duration;

use shardwright_frontier::KeyBuf;

use super::divide::Divided;
use super::retry_state::RetryState;
use super::work::Work;
use super::{Residual, Stopped};
use crate::event::WorkerEvent;

/// Whether an item was split off.
pub(super) enum SetAside {
    /// With the rest, if it could be acquired.
    Yes(Option<Box<Residual>>),
    /// The item waits in place.
    No,
}

impl Work<'_> {
    /// Splits off the first item, which waits for a retry.
    pub(super) async fn set_aside(&mut self) -> Result<SetAside, Stopped> {
        let Some((key, state, wait)) = self.first_state() else { return Ok(SetAside::No) };
        if self.is_ahead() {
            self.commit().await?;
        }
        let mut buffer = KeyBuf::new();
        let boundary = self.hint.cut_after(&key, &mut buffer);
        let Some(boundary) = boundary.filter(|cut| self.is_inside(cut)) else {
            return Ok(SetAside::No);
        };
        // Until the rest is acquired, no other slot of this worker acquires a shard.
        let holder = self.desk.holder;
        let _turn = holder.turn().await;
        let Divided::Yes(rest) = self.divide(boundary, Some(&state)).await? else {
            return Ok(SetAside::No);
        };
        let Some(backlog) = self.desk.set_aside(boundary) else { return Ok(SetAside::No) };
        let (shard, tries) = (self.shard(), state.tries);
        holder.report(WorkerEvent::SetAside { shard, key: &key, tries, wait });
        Ok(SetAside::Yes(holder.acquire(rest, backlog).await?))
    }

    /// The first item, its tries, and how long it waits.
    fn first_state(&self) -> Option<(Vec<u8>, RetryState, Duration)> {
        let env = &self.desk.holder.shared.env;
        let first = self.desk.backlog.first_waiting()?;
        let wait = first.due?.saturating_sub(env.monotonic());
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let state = RetryState {
            tries: first.history.tries,
            uncounted: first.history.uncounted,
            not_before: env.wall_clock().saturating_add(wait_ms),
            unparks: self.unparks,
        };
        Some((first.item.key.to_vec(), state, wait))
    }
}
