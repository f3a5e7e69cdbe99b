//! Parking an item that fails.
//!
//! Everything before the item is committed, everything after it is split off as a new shard, and
//! the rest of the shard, which is the item alone, is parked.

use shardwright_contracts::limits::MAX_PARK_DETAIL_SIZE;
use shardwright_coordination::{AsyncCoordinationBackend as _, ParkError};
use shardwright_frontier::KeyBuf;

use super::divide::Divided;
use super::work::Work;
use super::{End, Stopped, stopped_by};
use crate::attempt::Attempted;
use crate::error::WorkerError;
use crate::event::WorkerEvent;

/// Characters of an item's name that are kept.
const NAME_SHOWN: usize = 512;

impl Work<'_> {
    /// Parks a failing item, and nothing but it.
    pub(super) async fn isolate(mut self, failed: Attempted) -> Result<End, Stopped> {
        let shared = self.holder.shared;
        let Err(failure) = failed.outcome else { return self.release().await };
        let key = failed.item.key.clone();
        // Items started after it belong to the residual shard.
        self.running.clear();
        if self.is_ahead() {
            self.commit().await?;
        }
        let has_more = !(self.feed.has_ended() && self.feed.is_empty() && self.tracker.is_empty());
        let mut buffer = KeyBuf::new();
        if let Some(boundary) = self.hint.cut_after(&key, &mut buffer)
            && self.is_inside(boundary)
            && has_more
        {
            // Parking the whole shard would park items that were never tried.
            if let Divided::No(reason) = self.divide(boundary).await? {
                let item = failed.item.name();
                return Err(WorkerError::TooManyParked { item, reason }.into());
            }
        }
        let mut described = describe(&failed.item.name(), &failure.detail);
        let (mut op, mut failures) = (self.new_op(), 0);
        self.lease.begin_to_end();
        loop {
            let (tenant, lease) = (shared.tenant, self.lease.lease());
            let (reason, bytes) = (failure.reason, described.as_bytes());
            match shared.backend.park_shard(tenant, &lease, reason, bytes, op).await {
                Ok(outcome) => {
                    self.holder.note_replay(self.shard(), &outcome);
                    break;
                }
                Err(ParkError::BackendError(error)) if error.is_retryable() => {
                    self.holder.pause_after(&mut failures, &error).await;
                }
                Err(refusal) if retry_without_detail(&refusal, &mut described) => {
                    op = self.new_op()
                }
                Err(refusal) => return Err(stopped_by(self.shard(), refusal)),
            }
        }
        let (shard, reason) = (self.shard(), failure.reason);
        let (detail, retries) = (&failure.detail, failed.retries);
        self.holder.report(WorkerEvent::Parked { shard, key: &key, reason, detail, retries });
        Ok(End::Parked)
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
