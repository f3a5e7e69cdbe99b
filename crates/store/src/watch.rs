use tokio::sync::mpsc;

use crate::error::WatchError;
use crate::key::Key;
use crate::store::{Revision, Versioned};

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Key,
    /// The new value, or `None` if the key was deleted.
    pub now: Option<Versioned>,
}

/// All changes of one revision in a watched range. They come from one commit, from several commits
/// of a batch, or from the end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    /// The revision.
    pub revision: Revision,
    /// The changes.
    pub changes: Vec<Change>,
}

/// The changes of a range, in order, each once.
///
/// A watch is a hint. It ends with [`WatchError::Gap`] if it missed changes. Then the caller reads
/// the range again.
#[derive(Debug)]
pub struct Changes {
    receiver: mpsc::Receiver<Result<ChangeSet, WatchError>>,
    ended: bool,
}

impl Changes {
    /// A watch and its sender. A reader that falls `capacity` change sets behind gets a gap.
    #[must_use]
    pub fn channel(capacity: usize) -> (ChangeSender, Self) {
        // One slot is reserved for the error that ends the watch.
        let (sender, receiver) = mpsc::channel(capacity.max(1) + 1);
        (ChangeSender { sender, ended: false }, Self { receiver, ended: false })
    }

    /// Waits for the next changes. After an error, every call returns a gap.
    pub async fn next(&mut self) -> Result<ChangeSet, WatchError> {
        if self.ended {
            return Err(WatchError::Gap);
        }
        let received = self.receiver.recv().await.unwrap_or(Err(WatchError::Gap));
        self.ended = received.is_err();
        received
    }
}

/// The end of a watch that a store writes to.
#[derive(Debug)]
pub struct ChangeSender {
    sender: mpsc::Sender<Result<ChangeSet, WatchError>>,
    ended: bool,
}

impl ChangeSender {
    /// Sends changes without waiting. Returns false if the reader has closed the watch or has
    /// fallen too far behind.
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
            // A closed reader needs no error.
            let _gone = self.sender.try_send(Err(error));
        }
    }

    /// Whether the reader has closed the watch.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Waits until the reader closes the watch.
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
    fn changes_arrive_in_order() {
        let (mut sender, mut changes) = Changes::channel(2);
        assert!(sender.send(at(1)) && sender.send(at(2)));
        assert_eq!(poll(&mut changes).unwrap().unwrap(), at(1));
        assert_eq!(poll(&mut changes).unwrap().unwrap(), at(2));
        assert!(poll(&mut changes).is_none());
    }

    #[test]
    fn a_reader_that_lags_gets_a_gap_after_what_fits() {
        let (mut sender, mut changes) = Changes::channel(2);
        assert!(sender.send(at(1)) && sender.send(at(2)));
        assert!(!sender.send(at(3)) && !sender.send(at(4)));
        assert_eq!(poll(&mut changes).unwrap().unwrap(), at(1));
        assert_eq!(poll(&mut changes).unwrap().unwrap(), at(2));
        assert!(matches!(poll(&mut changes), Some(Err(WatchError::Gap))));
        assert!(matches!(poll(&mut changes), Some(Err(WatchError::Gap))));
    }

    #[test]
    fn each_end_detects_that_the_other_has_closed() {
        let (mut sender, changes) = Changes::channel(2);
        drop(changes);
        assert!(!sender.send(at(1)));
        let (sender, mut changes) = Changes::channel(2);
        drop(sender);
        assert!(matches!(poll(&mut changes), Some(Err(WatchError::Gap))));
    }
}
