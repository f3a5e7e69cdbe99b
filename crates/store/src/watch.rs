use tokio::sync::mpsc;

use crate::error::WatchError;
use crate::key::Key;
use crate::store::{Revision, Versioned};

/// What became of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Key,
    /// What is there now; none if it went away.
    pub now: Option<Versioned>,
}

/// All changes of one revision that fall into a watched range: those of one commit, of several
/// that were decided together, or of the end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    /// When.
    pub revision: Revision,
    /// What.
    pub changes: Vec<Change>,
}

/// The changes of a range, in order, each once.
///
/// A watch is a hint. It ends with [`WatchError::Gap`] where something was missed; what is to be
/// relied on is read again.
#[derive(Debug)]
pub struct Changes {
    receiver: mpsc::Receiver<Result<ChangeSet, WatchError>>,
    ended: bool,
}

impl Changes {
    /// A watch and the end at which a store puts changes in. A reader that is `capacity` sets
    /// behind gets a gap.
    #[must_use]
    pub fn channel(capacity: usize) -> (ChangeSender, Self) {
        // One place more is kept free, for the error that ends the watch.
        let (sender, receiver) = mpsc::channel(capacity.max(1) + 1);
        (ChangeSender { sender, ended: false }, Self { receiver, ended: false })
    }

    /// The next changes, as soon as there are any. After an error, nothing comes any more but gaps.
    pub async fn next(&mut self) -> Result<ChangeSet, WatchError> {
        if self.ended {
            return Err(WatchError::Gap);
        }
        let received = self.receiver.recv().await.unwrap_or(Err(WatchError::Gap));
        self.ended = received.is_err();
        received
    }
}

/// Where a store puts the changes for one watch.
#[derive(Debug)]
pub struct ChangeSender {
    sender: mpsc::Sender<Result<ChangeSet, WatchError>>,
    ended: bool,
}

impl ChangeSender {
    /// Passes changes on, without waiting. Returns whether more of them will be seen: the reader
    /// may be gone, or too far behind.
    pub fn send(&mut self, changes: ChangeSet) -> bool {
        if self.ended || self.sender.is_closed() {
            return false;
        }
        if self.sender.capacity() <= 1 {
            self.fail(WatchError::Gap);
            return false;
        }
        self.sender.try_send(Ok(changes)).is_ok()
    }

    /// Ends the watch.
    pub fn fail(&mut self, error: WatchError) {
        if !self.ended {
            self.ended = true;
            // A reader that is gone needs no reason.
            let _gone = self.sender.try_send(Err(error));
        }
    }

    /// Whether the reader is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Waits until the reader is gone.
    pub async fn closed(&self) {
        self.sender.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> ChangeSet {
        ChangeSet { revision: Revision::new(number), changes: Vec::new() }
    }

    fn poll(changes: &mut Changes) -> Option<Result<ChangeSet, WatchError>> {
        let mut next = Box::pin(changes.next());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match next.as_mut().poll(&mut context) {
            std::task::Poll::Ready(received) => Some(received),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn changes_come_in_order_and_then_are_waited_for() {
        let (mut sender, mut changes) = Changes::channel(2);
        assert!(sender.send(at(1)) && sender.send(at(2)));
        assert_eq!(poll(&mut changes).unwrap().unwrap(), at(1));
        assert_eq!(poll(&mut changes).unwrap().unwrap(), at(2));
        assert!(poll(&mut changes).is_none());
    }

    #[test]
    fn a_reader_that_is_too_far_behind_gets_what_fits_and_then_a_gap() {
        let (mut sender, mut changes) = Changes::channel(2);
        assert!(sender.send(at(1)) && sender.send(at(2)));
        assert!(!sender.send(at(3)) && !sender.send(at(4)));
        assert_eq!(poll(&mut changes).unwrap().unwrap(), at(1));
        assert_eq!(poll(&mut changes).unwrap().unwrap(), at(2));
        assert!(matches!(poll(&mut changes), Some(Err(WatchError::Gap))));
        assert!(matches!(poll(&mut changes), Some(Err(WatchError::Gap))));
    }

    #[test]
    fn a_sender_learns_that_the_reader_is_gone_and_a_reader_that_the_sender_is() {
        let (mut sender, changes) = Changes::channel(2);
        drop(changes);
        assert!(!sender.send(at(1)));
        let (sender, mut changes) = Changes::channel(2);
        drop(sender);
        assert!(matches!(poll(&mut changes), Some(Err(WatchError::Gap))));
    }
}
