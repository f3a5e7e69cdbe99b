//! Bodies of requests and answers. They count for the share of their peer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use shardwright_api::limits::{ANSWER_PART_SIZE, MAX_MESSAGE_SIZE, MAX_PAYLOAD_SIZE};
use shardwright_api::{CallError, status_of_error};
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::connection::{Answering, Turn};

/// How many bytes of a refused body are read, so that its sender gets the answer.
const DISCARD_MAX: u64 = 2 * MAX_MESSAGE_SIZE as u64;

/// The size of the prefix of a gRPC message: a flag and its length.
const PREFIX_SIZE: usize = 5;

/// How a request states its length.
#[derive(Clone, Copy, Debug)]
pub(super) enum Framing {
    /// In the header of an HTTP request, or not at all.
    Header,
    /// In the prefix of the only message of a gRPC call.
    Prefix,
}

/// The body of a request. Its whole length counts before the first byte is kept.
///
/// A refused body is read to its end, within limits, and discarded. Then the error is returned. So
/// a peer always gets its answer, and no other request of its connection is affected.
pub(super) struct RequestBody {
    body: Incoming,
    turn: Arc<Turn>,
    expected: Expected,
    deadline: Option<Pin<Box<Sleep>>>,
}

enum Expected {
    Header,
    Prefix {
        seen: [u8; PREFIX_SIZE],
        count: usize,
    },
    /// Bytes that are counted and not read yet, and how many there were.
    Rest {
        left: u64,
        of: u64,
    },
    Refused {
        why: CallError,
        discarded: u64,
    },
}

impl RequestBody {
    /// The body of a request whose head was counted or refused.
    pub(super) fn new(
        body: Incoming,
        turn: Arc<Turn>,
        framing: Framing,
        head: Result<(), CallError>,
    ) -> Self {
        let expected = match (head, framing) {
            (Err(why), _) => Expected::Refused { why, discarded: 0 },
            (Ok(()), Framing::Header) => Expected::Header,
            (Ok(()), Framing::Prefix) => Expected::Prefix { seen: [0; PREFIX_SIZE], count: 0 },
        };
        Self { body, turn, expected, deadline: None }
    }

    /// Counts the stated length of a body without a prefix.
    fn expect(&mut self) {
        if matches!(self.expected, Expected::Header) {
            let stated = self.body.size_hint().exact();
            self.count(stated.unwrap_or(MAX_PAYLOAD_SIZE as u64), MAX_PAYLOAD_SIZE);
        }
    }

    fn count(&mut self, size: u64, limit: usize) {
        let limit = limit as u64;
        let counted = match size {
            0 => Ok(()),
            _ if size > limit => Err(CallError::TooLarge { size, limit }),
            _ => self.turn.origin().count_request(size),
        };
        self.expected = match counted {
            Ok(()) => Expected::Rest { left: size, of: size },
            Err(why) => Expected::Refused { why, discarded: 0 },
        };
    }

    /// Counts received bytes.
    fn receive(&mut self, mut data: &[u8]) {
        if let Expected::Prefix { seen, count } = &mut self.expected {
            let (now, rest) = data.split_at(data.len().min(PREFIX_SIZE - *count));
            for (to, from) in seen.iter_mut().skip(*count).zip(now) {
                *to = *from;
            }
            (*count, data) = (*count + now.len(), rest);
            let [_, size @ ..] = *seen;
            if *count == PREFIX_SIZE {
                self.count(u64::from(u32::from_be_bytes(size)), MAX_MESSAGE_SIZE);
            }
        }
        let size = data.len() as u64;
        match &mut self.expected {
            Expected::Rest { left, of } => match left.checked_sub(size) {
                Some(rest) => *left = rest,
                None => {
                    let why = CallError::TooLarge { size: *of - *left + size, limit: *of };
                    self.expected = Expected::Refused { why, discarded: 0 };
                }
            },
            Expected::Refused { discarded, .. } => *discarded += size,
            Expected::Header | Expected::Prefix { .. } => {}
        }
    }

    /// Counts only what was received, once the body has ended.
    fn end(&mut self) {
        if let Expected::Rest { left: left @ 1.., of } = &mut self.expected {
            (*of, *left) = (*of - *left, 0);
            // A smaller amount always fits.
            let _ = self.turn.origin().count_request(*of);
        }
    }

    /// The error of a body that is refused and was read far enough.
    fn refused(&self, is_over: bool) -> Option<Status> {
        match &self.expected {
            Expected::Refused { why, discarded } if is_over || *discarded > DISCARD_MAX => {
                Some(status_of_error(why))
            }
            _ => None,
        }
    }

    /// Whether the time for the body is over. The clock starts when bytes are missing.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let timeout = self.turn.connection().ingress().limits().body_timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
        deadline.as_mut().poll(context)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        this.expect();
        loop {
            let Poll::Ready(received) = Pin::new(&mut this.body).poll_frame(context) else {
                ready!(this.poll_late(context));
                let late = || status_of_error(&CallError::Late);
                return Poll::Ready(Some(Err(this.refused(true).unwrap_or_else(late))));
            };
            let frame = match received {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    return Poll::Ready(Some(Err(Status::from_error(Box::new(error)))));
                }
                None => {
                    this.end();
                    this.turn.is_complete();
                    return Poll::Ready(this.refused(true).map(Err));
                }
            };
            if let Some(data) = frame.data_ref() {
                this.receive(data);
            }
            if let Some(refused) = this.refused(false) {
                return Poll::Ready(Some(Err(refused)));
            }
            if !matches!(this.expected, Expected::Refused { .. }) {
                return Poll::Ready(Some(Ok(frame)));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer. Its bytes count until they are sent.
///
/// It is sent in small parts, so that a slow peer shows progress.
pub(super) struct AnswerBody<B> {
    body: B,
    /// What follows of the current frame.
    rest: Bytes,
    answering: Answering,
}

impl<B> AnswerBody<B> {
    pub(super) const fn new(body: B, answering: Answering) -> Self {
        Self { body, rest: Bytes::new(), answering }
    }

    /// The next part of the current frame.
    fn next_part(&mut self) -> Frame<Bytes> {
        let bytes = self.rest.split_to(self.rest.len().min(ANSWER_PART_SIZE));
        Frame::data(Bytes::from_owner(Unsent { bytes, _answering: self.answering.clone() }))
    }
}

/// Bytes that wait to be sent.
struct Unsent {
    bytes: Bytes,
    _answering: Answering,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        // A server polls for what it can send.
        self.answering.progress();
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)).transpose()? {
                None => return Poll::Ready(None),
                Some(frame) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
            }
        }
        Poll::Ready(Some(Ok(self.next_part())))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower().saturating_add(rest));
        if let Some(upper) = body.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}
