//! Setting aside an item that fails.
//!
//! Everything before it is committed; what comes behind it becomes a shard of its own, for anybody
//! to go on with; and what is left, which is the item alone, is parked.

use shardwright_contracts::limits::MAX_PARK_DETAIL_SIZE;
use shardwright_coordination::{AsyncCoordinationBackend as _, ParkError};
use shardwright_frontier::{KeyBuf, key_successor};

use super::divide::Divided;
use super::work::Work;
use super::{End, Stopped, stopped_by};
use crate::attempt::Attempted;
use crate::error::WorkerError;
use crate::event::WorkerEvent;

/// How much of an item's name is kept, in letters.
const NAME_SHOWN: usize = 512;

impl Work<'_> {
    /// Parks a failing item, and nothing but it.
    pub(super) async fn isolate(mut self, failed: Attempted) -> Result<End, Stopped> {
        let shared = self.holder.shared;
        let Err(failure) = failed.outcome else { return self.release().await };
        let key = failed.item.key.clone();
        // What was begun behind it belongs to whoever gets the rest.
        self.running.clear();
        if self.is_ahead() {
            self.commit().await?;
        }
        let has_more = !(self.feed.has_ended() && self.feed.is_empty() && self.tracker.is_empty());
        let mut buffer = KeyBuf::new();
        if let Some(boundary) = key_successor(&key, &mut buffer)
            && boundary < self.spec.as_spec_ref().end()
            && has_more
        {
            // Parked whole, the shard would take along what nobody has tried.
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
                Err(refusal) if says_less(&refusal, &mut described) => op = self.new_op(),
                Err(refusal) => return Err(stopped_by(self.shard(), refusal)),
            }
        }
        let (shard, reason) = (self.shard(), failure.reason);
        let (detail, retries) = (&failure.detail, failed.retries);
        self.holder.tell(WorkerEvent::Parked { shard, key: &key, reason, detail, retries });
        Ok(End::Parked)
    }
}

/// Whether a park that was refused is worth another operation that keeps nothing with the shard:
/// better an item set aside without a word than a worker that stops for want of room.
fn says_less(refusal: &ParkError, described: &mut String) -> bool {
    let had_words = !std::mem::take(described).is_empty();
    had_words && matches!(refusal, ParkError::ResourceExhausted(_))
}

/// What to keep with a parked shard: which item, and what went wrong. The shard's range does not
/// name the item if nothing came behind it.
fn describe(name: &str, detail: &str) -> String {
    let mut described: String = name.chars().take(NAME_SHOWN).collect();
    described.push_str(if described.len() < name.len() { "\u{2026}: " } else { ": " });
    described.push_str(tail(detail, MAX_PARK_DETAIL_SIZE - described.len()));
    described
}

/// The end of a text, which says most of what went wrong.
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
    fn what_is_kept_names_the_item_and_fits() {
        assert_eq!(describe("a/b", "exit code 1"), "a/b: exit code 1");
        let longest = describe(&"k".repeat(4_096), &"x".repeat(5_000));
        assert_eq!(longest.len(), MAX_PARK_DETAIL_SIZE);
    }

    #[test]
    fn where_there_is_no_room_for_words_there_is_one_more_try_without() {
        let full = SlabFull::Bytes { requested: 9, free: 8, capacity: 10 };
        let mut described = "a/b: exit code 1".to_owned();
        assert!(says_less(&ParkError::ResourceExhausted(full), &mut described));
        assert_eq!(described, "");
        assert!(!says_less(&ParkError::ResourceExhausted(full), &mut described));
        let too_large = ParkError::ParkDetailTooLarge(ParkDetailTooLarge { size: 2, max: 1 });
        assert!(!says_less(&too_large, &mut "a/b".to_owned()));
    }

    #[test]
    fn a_tail_is_whole_characters_from_the_end() {
        assert_eq!(tail("abcdef", 3), "def");
        assert_eq!(tail("abc", 3), "abc");
        assert_eq!(tail("a\u{e9}z", 2), "z");
    }
}
