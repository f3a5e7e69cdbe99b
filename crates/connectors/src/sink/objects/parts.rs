//! Reading the parts of a segment, in order.
//!
//! A part may be as small as one result, so sequential requests would be slow. The number of parts
//! is unknown before the last one is read. So the number of concurrent requests grows with the
//! parts that were found, and never more requests fail than parts were read.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, FuturesOrdered};
use futures_util::{FutureExt as _, StreamExt as _};
use object_store::{GetResult, ObjectStoreExt as _};
use shardwright_worker::sink::SinkError;

use super::ObjectSink;

/// Most concurrent requests.
const PARTS_MAX: usize = 16;
/// Longest part that is buffered until it is read.
const BUFFERED_BYTES_MAX: u64 = 1 << 20;

/// The name of a part of a segment.
pub(super) fn part_of(segment: &str, part: u64) -> String {
    format!("{segment}/{part:08}")
}

/// A part's name, and its bytes piece by piece.
pub(super) type Part = (String, BoxStream<'static, object_store::Result<Bytes>>);

/// The unread parts of a segment.
pub(super) struct Parts<'s> {
    sink: &'s ObjectSink,
    segment: &'s str,
    requests: FuturesOrdered<BoxFuture<'s, Result<Answer, SinkError>>>,
    /// The first part that was not requested.
    next: u64,
    at_a_time: usize,
}

/// The reply to a request for a part.
enum Answer {
    Absent,
    Buffered(String, Bytes),
    /// Too long to be buffered. Open if it is the next part.
    Long(String, Option<GetResult>),
}

impl<'s> Parts<'s> {
    pub(super) fn new(sink: &'s ObjectSink, segment: &'s str) -> Self {
        Self { sink, segment, requests: FuturesOrdered::new(), next: 0, at_a_time: 1 }
    }

    /// The next part. None at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Part>, SinkError> {
        while self.requests.len() < self.at_a_time {
            let (name, is_next) = (part_of(self.segment, self.next), self.requests.is_empty());
            self.requests.push_back(request(self.sink, name, is_next).boxed());
            self.next += 1;
        }
        match self.requests.next().await.transpose()? {
            Some(Answer::Buffered(name, bytes)) => {
                self.at_a_time = (self.at_a_time + 1).min(PARTS_MAX);
                Ok(Some((name, stream::iter([Ok(bytes)]).boxed())))
            }
            Some(Answer::Long(name, open)) => {
                // The next parts may be long as well, and are requested when they can be read. A
                // store times out replies that are not read.
                self.at_a_time = 1;
                self.next = self.next.saturating_sub(self.requests.len() as u64);
                self.requests = FuturesOrdered::new();
                let found = match open {
                    Some(found) => Some(found),
                    None => find(self.sink, &name).await?,
                };
                Ok(found.map(|found| (name, found.into_stream())))
            }
            Some(Answer::Absent) | None => Ok(None),
        }
    }
}

async fn request(sink: &ObjectSink, name: String, is_next: bool) -> Result<Answer, SinkError> {
    let Some(found) = find(sink, &name).await? else { return Ok(Answer::Absent) };
    if found.meta.size > BUFFERED_BYTES_MAX {
        return Ok(Answer::Long(name, is_next.then_some(found)));
    }
    let bytes = found.bytes().await.map_err(sink.failed(&name))?;
    Ok(Answer::Buffered(name, bytes))
}

async fn find(sink: &ObjectSink, name: &str) -> Result<Option<GetResult>, SinkError> {
    match sink.store.get(&sink.path(name)?).await {
        Ok(found) => Ok(Some(found)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(sink.failed(name)(error)),
    }
}

#[cfg(test)]
mod tests;
