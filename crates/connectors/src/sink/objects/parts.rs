//! The parts of a segment, in their order.
//!
//! A part may be as small as one result, so one request after the other would take for ever. How
//! many parts there are is not known before the last one is read. So more are asked for at a time
//! as more of them were there, and never more are asked for in vain than were read.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, FuturesOrdered};
use futures_util::{FutureExt as _, StreamExt as _};
use object_store::{GetResult, ObjectStoreExt as _};
use shardwright_worker::sink::SinkError;

use super::ObjectSink;

/// Most parts that are asked for at a time.
const PARTS_MAX: usize = 16;
/// The longest part that is kept until its turn comes.
const KEPT_BYTES_MAX: u64 = 1 << 20;

/// What a part of a segment is called.
pub(super) fn part_of(segment: &str, part: u64) -> String {
    format!("{segment}/{part:08}")
}

/// A part's name, and its bytes piece by piece.
pub(super) type Part = (String, BoxStream<'static, object_store::Result<Bytes>>);

/// The parts of a segment that were not taken yet.
pub(super) struct Parts<'s> {
    sink: &'s ObjectSink,
    segment: &'s str,
    asked: FuturesOrdered<BoxFuture<'s, Result<Answer, SinkError>>>,
    /// The first part that was not asked for.
    next: u64,
    at_a_time: usize,
}

/// What came of asking for a part.
enum Answer {
    Absent,
    Kept(String, Bytes),
    /// Too long to be kept; it is open if its turn had come already.
    Long(String, Option<GetResult>),
}

impl<'s> Parts<'s> {
    pub(super) fn new(sink: &'s ObjectSink, segment: &'s str) -> Self {
        Self { sink, segment, asked: FuturesOrdered::new(), next: 0, at_a_time: 1 }
    }

    /// The next part; none if there is none.
    pub(super) async fn next(&mut self) -> Result<Option<Part>, SinkError> {
        while self.asked.len() < self.at_a_time {
            let (name, is_its_turn) = (part_of(self.segment, self.next), self.asked.is_empty());
            self.asked.push_back(ask(self.sink, name, is_its_turn).boxed());
            self.next += 1;
        }
        match self.asked.next().await.transpose()? {
            Some(Answer::Kept(name, bytes)) => {
                self.at_a_time = (self.at_a_time + 1).min(PARTS_MAX);
                Ok(Some((name, stream::iter([Ok(bytes)]).boxed())))
            }
            Some(Answer::Long(name, open)) => {
                // The next ones may be long as well, and are asked for when they can be read. Who
                // waits for long without being read is given up by its store.
                self.at_a_time = 1;
                self.next = self.next.saturating_sub(self.asked.len() as u64);
                self.asked = FuturesOrdered::new();
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

async fn ask(sink: &ObjectSink, name: String, is_its_turn: bool) -> Result<Answer, SinkError> {
    let Some(found) = find(sink, &name).await? else { return Ok(Answer::Absent) };
    if found.meta.size > KEPT_BYTES_MAX {
        return Ok(Answer::Long(name, is_its_turn.then_some(found)));
    }
    let bytes = found.bytes().await.map_err(sink.failed(&name))?;
    Ok(Answer::Kept(name, bytes))
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
