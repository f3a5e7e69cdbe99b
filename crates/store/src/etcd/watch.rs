//! Watches a range, over several connections if necessary.

use std::sync::Arc;

use tokio::select;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::answer::Namespace;
use super::answer::{self, revision_of};
use super::client::{Backoff, Client, Repeat};
use super::connection::Connection;
use super::failure::{EtcdFailure, Remedy, ServerMessage};
use super::store::{Shared, store_error};
use super::wire::event::Kind;
use super::wire::watch_request::RequestUnion;
use super::wire::{
    Event, RangeRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use crate::error::{FaultKind, WatchError};
use crate::key::StoreRange;
use crate::store::Revision;
use crate::watch::{Change, ChangeSender, ChangeSet, Changes};

/// Starts a watch.
pub(crate) async fn watch(
    shared: &Arc<Shared>,
    range: &StoreRange,
    after: Revision,
) -> Result<Changes, WatchError> {
    let (sender, changes) = Changes::channel(shared.watch_capacity);
    if range.is_empty() {
        // etcd refuses a watch of an empty range.
        shared.client.spawn(async move { sender.closed().await });
        return Ok(changes);
    }
    let mut follower = Follower {
        client: Arc::clone(&shared.client),
        namespace: shared.composer.namespace.clone(),
        range: range.clone(),
        next: after.get() + 1,
        fragments: Vec::new(),
    };
    let mut backoff = Backoff::new(shared.client.timeouts().call);
    let stream = loop {
        let opened = backoff.within(follower.open()).await;
        match opened.unwrap_or_else(|| Err(EtcdFailure::late("a watch"))) {
            Ok(stream) => break stream,
            Err(failure) => {
                let again = failure.remedy == Remedy::AnotherConnection;
                if !again || !backoff.pause().await {
                    return Err(watch_error(failure));
                }
            }
        }
    };
    shared.client.spawn(async move { follower.run(stream, sender).await });
    Ok(changes)
}

struct Follower {
    client: Arc<Client>,
    namespace: Namespace,
    range: StoreRange,
    /// The first revision that was not delivered.
    next: u64,
    /// The changes of an answer that arrives in fragments.
    fragments: Vec<Event>,
}

struct Stream {
    connection: Arc<Connection>,
    requests: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
    /// Whether it has received more than the confirmation of its creation.
    has_delivered: bool,
}

/// Why a stream is no longer read.
enum End {
    /// The reader has closed the watch.
    Unread,
    /// Another stream can continue.
    Broken,
    /// Access to the range is denied, or the member has dropped the token.
    Denied(WatchError),
    /// No other stream can continue.
    Over(WatchError),
}

impl Follower {
    async fn open(&mut self) -> Result<Stream, EtcdFailure> {
        self.fragments.clear();
        let connection = self.client.connection().await?;
        let (requests, outgoing) = mpsc::channel(1);
        let (key, range_end) = self.namespace.range(&self.range);
        let create = WatchCreateRequest {
            key,
            range_end,
            start_revision: i64::try_from(self.next).unwrap_or(i64::MAX),
            progress_notify: true,
            fragment: true,
        };
        // The channel has room for this first message.
        let _room = requests.try_send(request(RequestUnion::CreateRequest(create)));
        let mut client = connection.watch();
        let opening = client.watch(connection.stream(ReceiverStream::new(outgoing)));
        let opened = match timeout(self.client.timeouts().attempt, opening).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(connection.failure(status)),
            Err(_late) => Err(EtcdFailure::late("a watch")),
        };
        match opened {
            Ok(answers) => Ok(Stream { connection, requests, answers, has_delivered: false }),
            Err(failure) => {
                if failure.remedy == Remedy::AnotherConnection {
                    self.client.retire(&connection).await;
                }
                Err(failure)
            }
        }
    }

    async fn run(mut self, mut stream: Stream, mut sender: ChangeSender) {
        let mut backoff = Backoff::endless();
        loop {
            let denied = match self.follow(&mut stream, &mut sender).await {
                End::Unread => return,
                End::Over(error) => return sender.fail(error),
                End::Denied(error) => Some(error),
                End::Broken => None,
            };
            if stream.has_delivered {
                backoff = Backoff::endless();
            }
            stream = select! {
                biased;
                () = sender.closed() => return,
                opened = self.open_again(&stream, denied, &mut backoff) => match opened {
                    Ok(stream) => stream,
                    Err(error) => return sender.fail(error),
                },
            };
        }
    }

    /// Opens another stream, however long it takes, unless access is denied permanently.
    async fn open_again(
        &mut self,
        ended: &Stream,
        denied: Option<WatchError>,
        backoff: &mut Backoff,
    ) -> Result<Stream, WatchError> {
        if let Some(error) = denied
            && self.may_not_read().await
        {
            return Err(error);
        }
        self.client.retire(&ended.connection).await;
        if !ended.has_delivered {
            // A stream that ends at its start is not reopened without a pause.
            backoff.pause().await;
        }
        loop {
            match self.open().await {
                Ok(stream) => return Ok(stream),
                Err(failure) if failure.remedy != Remedy::AnotherConnection => {
                    return Err(watch_error(failure));
                }
                Err(_) => backoff.pause().await,
            };
        }
    }

    async fn follow(&mut self, stream: &mut Stream, sender: &mut ChangeSender) -> End {
        let mut asked = false;
        loop {
            let timeouts = self.client.timeouts();
            let limit = if asked { timeouts.attempt } else { timeouts.silence };
            let answer = select! {
                biased;
                () = sender.closed() => return End::Unread,
                answer = timeout(limit, stream.answers.message()) => answer,
            };
            match answer {
                Ok(Ok(Some(answer))) => {
                    asked = false;
                    stream.has_delivered |= !answer.created && !answer.canceled;
                    if self.is_behind(&answer) && self.is_set_back().await {
                        return End::Over(WatchError::Gap);
                    }
                    if let Err(end) = self.take(&stream.connection, answer, sender) {
                        return end;
                    }
                }
                Ok(Ok(None)) => return End::Broken,
                Ok(Err(status)) => return end(stream.connection.failure(status)),
                // Silence means that nothing changes or that the connection is dead.
                Err(_late) if !asked => {
                    let question = RequestUnion::ProgressRequest(WatchProgressRequest {});
                    if stream.requests.try_send(request(question)).is_err() {
                        return End::Broken;
                    }
                    asked = true;
                }
                Err(_late) => return End::Broken,
            }
        }
    }

    /// Whether a member lags behind what was delivered.
    fn is_behind(&self, answer: &WatchResponse) -> bool {
        !answer.canceled && revision_of(answer.header.as_ref()).get() + 1 < self.next
    }

    /// Whether the cluster was restored from a backup. Then it reuses revisions for other changes.
    async fn is_set_back(&self) -> bool {
        let key = self.namespace.prefix().clone();
        let read = |connection: Arc<Connection>, limit| {
            let probe = RangeRequest { key: key.clone(), count_only: true, ..Default::default() };
            let request = connection.request(probe, limit);
            async move { connection.kv().range(request).await }
        };
        let now = self.client.call("a read of the revision", Repeat::Freely, read).await;
        now.is_ok_and(|answer| revision_of(answer.header.as_ref()).get() + 1 < self.next)
    }

    /// Whether access to the range is denied. A member that has dropped the token may reject a
    /// watch in the same way. A read then authenticates again.
    async fn may_not_read(&self) -> bool {
        let (key, range_end) = self.namespace.range(&self.range);
        let read = |connection: Arc<Connection>, limit| {
            let (key, range_end) = (key.clone(), range_end.clone());
            let probe =
                RangeRequest { key, range_end, limit: 1, keys_only: true, ..Default::default() };
            let request = connection.request(probe, limit);
            async move { connection.kv().range(request).await }
        };
        let read = self.client.call("a read of the range", Repeat::Freely, read).await;
        read.is_err_and(|failure| failure.fault.kind == FaultKind::Denied)
    }

    fn take(
        &mut self,
        connection: &Connection,
        answer: WatchResponse,
        sender: &mut ChangeSender,
    ) -> Result<(), End> {
        if answer.canceled {
            return Err(cancelled(connection, answer));
        }
        let seen = revision_of(answer.header.as_ref()).get();
        // A requested progress report may be ahead of changes that are still to come. A report that
        // a member sends on its own is not.
        let progress = !answer.created && answer.watch_id >= 0 && !answer.fragment;
        self.fragments.extend(answer.events);
        if answer.fragment {
            return Ok(());
        }
        if self.fragments.is_empty() {
            if progress {
                self.next = self.next.max(seen + 1);
            }
            return Ok(());
        }
        let events = std::mem::take(&mut self.fragments);
        self.deliver(events, sender)
    }

    /// Delivers changes, those of one revision together.
    fn deliver(&mut self, events: Vec<Event>, sender: &mut ChangeSender) -> Result<(), End> {
        let mut set = ChangeSet { revision: Revision::ZERO, changes: Vec::new() };
        for event in events {
            let deleted = event.kind() == Kind::Delete;
            let Some(found) = event.kv else { continue };
            let Some((key, versioned)) = answer::entry(&self.namespace, found) else { continue };
            let revision = versioned.revision;
            if revision != set.revision {
                self.finish(&mut set, sender)?;
                set.revision = revision;
            }
            set.changes.push(Change { key, now: (!deleted).then_some(versioned) });
        }
        self.finish(&mut set, sender)
    }

    fn finish(&mut self, set: &mut ChangeSet, sender: &mut ChangeSender) -> Result<(), End> {
        let set =
            std::mem::replace(set, ChangeSet { revision: Revision::ZERO, changes: Vec::new() });
        if set.changes.is_empty() {
            return Ok(());
        }
        let revision = set.revision.get();
        if revision < self.next {
            // The member goes back in time, or sends one revision in two parts.
            return Err(End::Over(WatchError::Gap));
        }
        self.next = revision + 1;
        if sender.send(set) { Ok(()) } else { Err(End::Unread) }
    }
}

fn request(request: RequestUnion) -> WatchRequest {
    WatchRequest { request_union: Some(request) }
}

fn cancelled(connection: &Connection, answer: WatchResponse) -> End {
    if answer.compact_revision != 0 || answer.cancel_reason.is_empty() {
        return End::Over(WatchError::Gap);
    }
    end(connection.failure(Status::unknown(bare(&answer.cancel_reason))))
}

/// The message of etcd within the reason for the end of a watch. The reason is a Go error with a
/// code in front, as in `rpc error: code = PermissionDenied desc = etcdserver: permission denied`.
fn bare(reason: &str) -> &str {
    reason.split_once("desc = ").map_or(reason, |(_, message)| message)
}

fn end(failure: EtcdFailure) -> End {
    match failure.remedy {
        Remedy::AnotherConnection => End::Broken,
        Remedy::Apart | Remedy::None if failure.fault.kind == FaultKind::Denied => {
            End::Denied(watch_error(failure))
        }
        Remedy::Apart | Remedy::None => End::Over(watch_error(failure)),
    }
}

fn watch_error(failure: EtcdFailure) -> WatchError {
    if failure.message == Some(ServerMessage::NoSuchMoment) {
        WatchError::Gap
    } else {
        store_error(failure).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_for(reason: &str) -> End {
        end(EtcdFailure::of(Status::unknown(bare(reason))))
    }

    #[test]
    fn the_end_of_a_watch_is_classified_by_its_message() {
        let denied = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
        assert!(matches!(end_for(denied), End::Denied(_)));
        assert!(matches!(end_for("etcdserver: permission denied"), End::Denied(_)));
        let forgotten = "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token";
        assert!(matches!(end_for(forgotten), End::Broken));
        let leaderless = "rpc error: code = Unavailable desc = etcdserver: no leader";
        assert!(matches!(end_for(leaderless), End::Broken));
        let gone = "rpc error: code = OutOfRange desc = etcdserver: mvcc: required revision has \
                    been compacted";
        assert!(matches!(end_for(gone), End::Over(WatchError::Gap)));
    }
}
