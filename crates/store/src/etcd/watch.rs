//! Following the changes of a range, over as many connections as it takes.

use std::sync::Arc;

use tokio::select;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::answer::Namespace;
use super::answer::{self, moment};
use super::client::{Client, Patience, Repeat};
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

/// Starts to follow a range.
pub(crate) async fn watch(
    shared: &Arc<Shared>,
    range: &StoreRange,
    after: Revision,
) -> Result<Changes, WatchError> {
    let (sender, changes) = Changes::channel(shared.watch_capacity);
    if range.is_empty() {
        // etcd refuses to wait for what cannot be.
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
    let mut patience = Patience::new(shared.client.timeouts().call);
    let stream = loop {
        let opened = patience.within(follower.open()).await;
        match opened.unwrap_or_else(|| Err(EtcdFailure::late("a watch"))) {
            Ok(stream) => break stream,
            Err(failure) => {
                let again = failure.remedy == Remedy::AnotherConnection;
                if !again || !patience.pause().await {
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
    /// The first revision that has not been passed on.
    next: u64,
    /// Changes of an answer that came in parts, of which the last is still to come.
    fragments: Vec<Event>,
}

struct Stream {
    connection: Arc<Connection>,
    requests: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
    /// Whether it has delivered more than its creation.
    has_delivered: bool,
}

/// Why a stream is not read any more.
enum End {
    /// The reader is gone.
    Unread,
    /// Another stream may go on from here.
    Broken,
    /// We may not read what is watched, or are not known any more.
    Denied(WatchError),
    /// No other stream would do better.
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
        // There is room for one, and it is the first.
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
        let mut patience = Patience::endless();
        loop {
            let denied = match self.follow(&mut stream, &mut sender).await {
                End::Unread => return,
                End::Over(error) => return sender.fail(error),
                End::Denied(error) => Some(error),
                End::Broken => None,
            };
            if stream.has_delivered {
                patience = Patience::endless();
            }
            stream = select! {
                biased;
                () = sender.closed() => return,
                opened = self.open_again(&stream, denied, &mut patience) => match opened {
                    Ok(stream) => stream,
                    Err(error) => return sender.fail(error),
                },
            };
        }
    }

    /// Opens another stream after one that has ended, however long it takes, unless that was
    /// denied and would be again.
    async fn open_again(
        &mut self,
        ended: &Stream,
        denied: Option<WatchError>,
        patience: &mut Patience,
    ) -> Result<Stream, WatchError> {
        if let Some(error) = denied
            && self.may_not_read().await
        {
            return Err(error);
        }
        self.client.retire(&ended.connection).await;
        if !ended.has_delivered {
            // Streams that end as they begin are not opened without a pause.
            patience.pause().await;
        }
        loop {
            match self.open().await {
                Ok(stream) => return Ok(stream),
                Err(failure) if failure.remedy != Remedy::AnotherConnection => {
                    return Err(watch_error(failure));
                }
                Err(_) => patience.pause().await,
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
                // Silence may mean that nothing changes, or that the other side is gone.
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

    /// Whether a member has not yet heard of what was passed on already, or not any more.
    fn is_behind(&self, answer: &WatchResponse) -> bool {
        !answer.canceled && moment(answer.header.as_ref()).get() + 1 < self.next
    }

    /// Whether the whole cluster has forgotten what was passed on, because it was restored from a
    /// backup. Its revisions come again, and mean something else.
    async fn is_set_back(&self) -> bool {
        let key = self.namespace.prefix().clone();
        let read = |connection: Arc<Connection>, limit| {
            let probe = RangeRequest { key: key.clone(), count_only: true, ..Default::default() };
            let request = connection.request(probe, limit);
            async move { connection.kv().range(request).await }
        };
        let now = self.client.call("a look at the time", Repeat::Freely, read).await;
        now.is_ok_and(|answer| moment(answer.header.as_ref()).get() + 1 < self.next)
    }

    /// Whether we may not read what is watched. A member that has forgotten who we are may say the
    /// same of a watch as one that knows, but not of a read, which then makes us known again.
    async fn may_not_read(&self) -> bool {
        let (key, range_end) = self.namespace.range(&self.range);
        let read = |connection: Arc<Connection>, limit| {
            let (key, range_end) = (key.clone(), range_end.clone());
            let probe =
                RangeRequest { key, range_end, limit: 1, keys_only: true, ..Default::default() };
            let request = connection.request(probe, limit);
            async move { connection.kv().range(request).await }
        };
        let read = self.client.call("a look at what is watched", Repeat::Freely, read).await;
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
        let seen = moment(answer.header.as_ref()).get();
        // The answer to a question carries no number, and may be ahead of changes that are still
        // to come; what a member says by itself is not.
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
        self.pass_on(events, sender)
    }

    /// Passes changes on, those of one revision together.
    fn pass_on(&mut self, events: Vec<Event>, sender: &mut ChangeSender) -> Result<(), End> {
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
            // A member goes back in time, or sends one revision in two parts.
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

/// What etcd says in the reason for the end of a watch, which is an error as Go prints it: with a
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
    fn the_reason_for_the_end_of_a_watch_is_known_by_what_etcd_says_in_it() {
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
