//! Setting aside an item that fails.
//!
//! Everything before it is committed; what comes behind it becomes a shard of its own, for anybody
//! to go on with; and what is left, which is the item alone, is parked.

use shardwright_contracts::limits::{MAX_KEY_SIZE, MAX_PARK_DETAIL_SIZE};
use shardwright_contracts::Env;
use shardwright_coordination::ParkError;
use shardwright_frontier::{KeyBuf, prefix_successor};

use super::work::Work;
use super::{End, Stopped, stopped_by};
use crate::attempt::Attempted;
use crate::backend::Backend;
use crate::connector::Connector;
use crate::event::WorkerEvent;
use crate::job::Job;
use crate::sink::Sink;

impl<B: Backend, C: Connector, J: Job, K: Sink, E: Env> Work<'_, B, C, J, K, E> {
    /// Parks a failing item, and nothing but it.
    pub(super) async fn isolate(mut self, failed: Attempted) -> Result<End, Stopped> {
        let shared = self.holder.shared;
        let Err(failure) = failed.outcome else { return self.release().await };
        let key = failed.item.key;
        // What was begun behind it belongs to whoever gets the rest.
        self.running.clear();
        if self.ledger.done() != self.ledger.committed() {
            self.commit().await?;
        }
        let has_more = !(self.feed.has_ended() && self.feed.is_empty() && self.tracker.is_empty());
        if let Some(boundary) = next_key(&key)
            && boundary.as_slice() < self.spec.as_spec_ref().end()
            && has_more
        {
            self.divide(&boundary).await?;
        }
        let detail = tail(&failure.detail, MAX_PARK_DETAIL_SIZE);
        let (op, mut failures) = (self.new_op(), 0);
        loop {
            let (tenant, lease) = (shared.tenant, self.lease.lease());
            let (reason, bytes) = (failure.reason, detail.as_bytes());
            match shared.backend.park_shard(tenant, &lease, reason, bytes, op).await {
                Ok(_) => break,
                Err(ParkError::BackendError(error)) if error.is_retryable() => {
                    self.holder.pause_after(&mut failures, &error).await;
                }
                Err(refusal) => return Err(stopped_by(self.shard(), refusal)),
            }
        }
        let (shard, reason) = (self.shard(), failure.reason);
        self.holder.tell(WorkerEvent::Parked { shard, key: &key, reason, detail });
        Ok(End::Parked)
    }
}

/// The first key behind `key`. Behind the greatest there is none.
fn next_key(key: &[u8]) -> Option<Vec<u8>> {
    if key.len() < MAX_KEY_SIZE {
        return Some([key, &[0]].concat());
    }
    // No key begins with it and is longer.
    let mut buffer = KeyBuf::new();
    prefix_successor(key, &mut buffer).ok().flatten().map(<[u8]>::to_vec)
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
    use super::*;

    #[test]
    fn the_next_key_has_none_before_it() {
        assert_eq!(next_key(b"a").unwrap(), b"a\0");
        let longest = vec![b'a'; MAX_KEY_SIZE];
        let mut next = longest.clone();
        *next.last_mut().unwrap() = b'b';
        assert_eq!(next_key(&longest), Some(next));
        assert_eq!(next_key(&[0xff; MAX_KEY_SIZE]), None);
    }

    #[test]
    fn a_tail_is_whole_characters_from_the_end() {
        assert_eq!(tail("abcdef", 3), "def");
        assert_eq!(tail("abc", 3), "abc");
        assert_eq!(tail("a\u{e9}z", 2), "z");
    }
}
