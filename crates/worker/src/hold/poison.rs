//! Parking an item that fails.
//!
//! Everything before the item is committed, everything after it is split off as a new shard, and
//! the rest of the shard, which is the item alone, is parked. The slot goes on with what was split
//! off, and keeps what it has in hand of it. It acquires that first, before other processes do.

use shardwright_contracts::OpId;
use shardwright_contracts::limits::MAX_PARK_DETAIL_SIZE;
use shardwright_coordination::{AsyncCoordinationBackend as _, ParkError};
use shardwright_frontier::KeyBuf;

use super::divide::Divided;
use super::lease_cell::LeaseCell;
use super::work::Work;
use super::{Finish, Holder, Residual, Stopped, stopped_by};
use crate::attempt::Attempted;
use crate::error::WorkerError;
use crate::event::WorkerEvent;
use crate::handler::ItemFailure;

/// Characters of an item's name that are kept.
const NAME_SHOWN: usize = 512;

impl Work<'_> {
    /// Parks a failing item, and nothing but it. Nothing is in progress.
    pub(super) async fn isolate(mut self, failed: Attempted) -> Result<Finish, Stopped> {
        let Err(failure) = &failed.outcome else { return self.release().await };
        if self.is_ahead() {
            self.commit().await?;
        }
        let residual = self.split_behind(&failed).await?;
        self.desk.holder.park(self.lease, &failed, failure).await?;
        Ok(Finish::Ended(residual))
    }

    /// Splits off everything behind a failing item, if there is more.
    async fn split_behind(&mut self, failed: &Attempted) -> Result<Option<Box<Residual>>, Stopped> {
        let mut buffer = KeyBuf::new();
        let boundary = self.hint.cut_after(&failed.item.key, &mut buffer);
        let Some(boundary) = boundary.filter(|cut| self.is_inside(cut)) else { return Ok(None) };
        if self.desk.backlog.is_done() {
            return Ok(None);
        }
        // Until the rest is acquired, no other slot of this worker acquires a shard.
        let holder = self.desk.holder;
        let _turn = match self.exclusive.take() {
            Some(exclusive) => Some(exclusive.into_turn()),
            None => holder.turn().await,
        };
        match self.divide(boundary, None).await? {
            Divided::Yes(shard) => {
                let mut backlog = self.desk.take_backlog();
                backlog.feed.start_at(boundary);
                Ok(holder.acquire(shard, backlog).await?)
            }
            // Parking the whole shard would park items that were never tried.
            Divided::No(reason) => {
                let item = failed.item.name();
                Err(WorkerError::TooManyParked { item, reason }.into())
            }
        }
    }
}

impl Holder<'_> {
    /// Parks the shard, and retries until the store answers.
    async fn park(
        &self,
        cell: &LeaseCell,
        failed: &Attempted,
        failure: &ItemFailure,
    ) -> Result<(), Stopped> {
        let shared = self.shared;
        let mut described = describe(&failed.item.name(), &failure.detail);
        let new_op = || OpId::from_raw(shared.env.random());
        let (shard, mut op, mut failures) = (cell.lease().key().shard, new_op(), 0);
        cell.begin_to_end();
        loop {
            let (tenant, lease) = (shared.tenant, cell.lease());
            let (reason, bytes) = (failure.reason, described.as_bytes());
            match shared.backend.park_shard(tenant, &lease, reason, bytes, op).await {
                Ok(outcome) => {
                    self.note_replay(shard, &outcome);
                    break;
                }
                Err(ParkError::BackendError(error)) if error.is_retryable() => {
                    self.pause_after(&mut failures, &error).await;
                }
                Err(refusal) if retry_without_detail(&refusal, &mut described) => {
                    op = new_op();
                }
                Err(refusal) => return Err(stopped_by(shard, refusal)),
            }
        }
        let (key, reason) = (&failed.item.key, failure.reason);
        let (detail, retries) = (&failure.detail, failed.retries);
        self.report(WorkerEvent::Parked { shard, key, reason, detail, retries });
        Ok(())
    }
}

/// Whether to retry a rejected park without its detail: an item parked without a message is better
/// than a worker that stops for want of space.
fn retry_without_detail(refusal: &ParkError, described: &mut String) -> bool {
    let had_detail = !std::mem::take(described).is_empty();
    had_detail && matches!(refusal, ParkError::ResourceExhausted(_))
}

/// The detail of a parked shard: the item and what went wrong. The shard's range does not name the
/// item if nothing came after it.
fn describe(name: &str, detail: &str) -> String {
    let mut described: String = name.chars().take(NAME_SHOWN).collect();
    described.push_str(if described.len() < name.len() { "\u{2026}: " } else { ": " });
    described.push_str(tail(detail, MAX_PARK_DETAIL_SIZE - described.len()));
    described
}

/// The end of a message, which has most of the information.
fn tail(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use shardwright_contracts::SlabFull;
    use shardwright_coordination::error::reason::ParkDetailTooLarge;

    use super::*;

    #[test]
    fn a_park_detail_names_the_item_and_fits() {
        assert_eq!(describe("a/b", "exit code 1"), "a/b: exit code 1");
        let longest = describe(&"k".repeat(4_096), &"x".repeat(5_000));
        assert_eq!(longest.len(), MAX_PARK_DETAIL_SIZE);
    }

    #[test]
    fn parking_is_retried_once_without_its_detail() {
        let full = SlabFull::Bytes { requested: 9, free: 8, capacity: 10 };
        let mut described = "a/b: exit code 1".to_owned();
        assert!(retry_without_detail(&ParkError::ResourceExhausted(full), &mut described));
        assert_eq!(described, "");
        assert!(!retry_without_detail(&ParkError::ResourceExhausted(full), &mut described));
        let too_large = ParkError::ParkDetailTooLarge(ParkDetailTooLarge { size: 2, max: 1 });
        assert!(!retry_without_detail(&too_large, &mut "a/b".to_owned()));
    }

    #[test]
    fn a_tail_is_whole_characters_from_the_end() {
        assert_eq!(tail("abcdef", 3), "def");
        assert_eq!(tail("abc", 3), "abc");
        assert_eq!(tail("a\u{e9}z", 2), "z");
    }
}
