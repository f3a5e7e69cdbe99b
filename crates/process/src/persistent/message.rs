//! The lines that a program and its worker exchange; see `docs/worker-protocol.md`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use shardwright_contracts::RunId;
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Assignment, Batch};

use super::PersistentError;
use crate::record::KeyText;
use crate::template::text_of;

/// The protocol version.
pub(super) const VERSION: u64 = 1;

/// Bytes of a malformed line that are shown.
const SHOWN_BYTES: usize = 120;

/// A message to a program.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Outgoing<'a> {
    Hello { version: u64, run: String },
    Item(ItemLine<'a>),
    Checkpoint { shard: String, fence: u64, key: KeyText<'a> },
    Split { shard: String, fence: u64, end: KeyText<'a> },
    Revoke { ids: &'a [u64] },
}

#[derive(Serialize)]
struct ItemLine<'a> {
    id: u64,
    item: KeyText<'a>,
    key: KeyText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    shard: &'a str,
    fence: u64,
    sequence: u64,
    attempt: u32,
}

impl Outgoing<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        // Cannot fail: there are no maps and no foreign types in it.
        let _written = serde_json::to_writer(&mut *out, self);
        out.push(b'\n');
    }
}

/// Writes the first line.
pub(super) fn hello(out: &mut Vec<u8>, run: RunId) {
    let run = format!("{:016x}", run.as_raw());
    Outgoing::Hello { version: VERSION, run }.write(out);
}

/// Writes a line for each item of a batch; the first has the id `first`.
pub(super) fn items(out: &mut Vec<u8>, first: u64, batch: &Batch<'_>) {
    let Assignment { shard, fence, .. } = batch.assignment;
    let shard = format!("{:016x}", shard.as_raw());
    for (index, item) in (0..).zip(batch.items) {
        let Item { key, size, .. } = item;
        let text = text_of(item);
        let line = ItemLine {
            id: first + index,
            item: KeyText::new(&text),
            key: KeyText::new(key),
            bytes: *size,
            shard: &shard,
            fence: fence.as_raw(),
            sequence: batch.sequence + index,
            attempt: batch.attempt,
        };
        Outgoing::Item(line).write(out);
    }
}

/// Writes that all items of a shard up to `key` are committed.
pub(super) fn checkpoint(out: &mut Vec<u8>, assignment: &Assignment, key: &[u8]) {
    let (shard, fence) = (format!("{:016x}", assignment.shard.as_raw()), assignment.fence.as_raw());
    Outgoing::Checkpoint { shard, fence, key: KeyText::new(key) }.write(out);
}

/// Writes that a shard ends before `end` now.
pub(super) fn split(out: &mut Vec<u8>, assignment: &Assignment, end: &[u8]) {
    let (shard, fence) = (format!("{:016x}", assignment.shard.as_raw()), assignment.fence.as_raw());
    Outgoing::Split { shard, fence, end: KeyText::new(end) }.write(out);
}

/// Writes that items are revoked.
pub(super) fn revoke(out: &mut Vec<u8>, ids: &[u64]) {
    Outgoing::Revoke { ids }.write(out);
}

/// A message of a program.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// The first line of every program.
    Hello {
        /// The version of its protocol.
        version: u64,
    },
    /// An item is done.
    Done {
        /// The item.
        id: u64,
        /// Its result.
        output: Vec<u8>,
    },
    /// An item has failed.
    Failed {
        /// The item.
        id: u64,
        /// What went wrong.
        detail: Cow<'a, str>,
        /// Whether a retry may succeed.
        may_retry: bool,
    },
    /// The program gave up a revoked item.
    Revoked {
        /// The item.
        id: u64,
    },
}

/// All fields that a line of a program may have. Flat, because it is parsed a hundred thousand
/// times a second. Unknown fields are ignored, so that later versions can add some.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Kind,
    version: Option<u64>,
    id: Option<u64>,
    #[serde(borrow)]
    output: Option<KeyText<'a>>,
    #[serde(borrow)]
    detail: Option<Cow<'a, str>>,
    retry: Option<bool>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Hello,
    Done,
    Failed,
    Revoked,
}

/// Parses a line of a program, without its newline.
pub fn parse(line: &[u8]) -> Result<Incoming<'_>, PersistentError> {
    let malformed = || PersistentError::Malformed { line: shown(line) };
    let Line { kind, version, id, output, detail, retry } =
        serde_json::from_slice(line).map_err(|_| malformed())?;
    if let Kind::Hello = kind {
        return Ok(Incoming::Hello { version: version.ok_or_else(malformed)? });
    }
    let id = id.ok_or_else(malformed)?;
    Ok(match kind {
        Kind::Done => {
            let output = output.map(|output| output.to_bytes().ok_or_else(malformed));
            Incoming::Done { id, output: output.transpose()?.unwrap_or_default() }
        }
        Kind::Failed => {
            let detail = detail.unwrap_or(Cow::Borrowed("the worker gave no reason"));
            Incoming::Failed { id, detail, may_retry: retry.unwrap_or(true) }
        }
        Kind::Revoked | Kind::Hello => Incoming::Revoked { id },
    })
}

/// The beginning of a line, with control characters escaped.
fn shown(line: &[u8]) -> String {
    let mut text = String::new();
    for byte in line.iter().take(SHOWN_BYTES) {
        match byte {
            b' '..=b'~' => text.push(char::from(*byte)),
            other => text.extend(other.escape_ascii().map(char::from)),
        }
    }
    if line.len() > SHOWN_BYTES {
        text.push('\u{2026}');
    }
    text
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use shardwright_contracts::{FenceEpoch, ShardId, WorkerId};

    use super::*;
    use shardwright_worker::connector::Payload;

    fn assignment() -> Assignment {
        Assignment {
            run: RunId::from_raw(1),
            shard: ShardId::from_raw(10),
            fence: FenceEpoch::from_raw(3).unwrap(),
            worker: WorkerId::from_raw(4),
        }
    }

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn messages_are_as_documented() {
        let documented = include_str!("../../../../docs/worker-protocol.md");
        let payload = Payload::Row { number: 7, bytes: Bytes::from_static(b"./data/a/b") };
        let item = Item { key: Bytes::from_static(b"a/b"), size: Some(12), payload };
        let assignment = assignment();
        let batch = Batch { assignment: &assignment, sequence: 6, items: &[item], attempt: 1 };
        for line in [
            written(|out| hello(out, assignment.run)),
            written(|out| items(out, 7, &batch)),
            written(|out| checkpoint(out, &assignment, b"a/b")),
            written(|out| split(out, &assignment, b"m")),
            written(|out| revoke(out, &[8, 9])),
        ] {
            assert!(documented.contains(&line), "{line}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_base64_both_ways() {
        let payload = Payload::Row { number: 0, bytes: Bytes::from_static(b"\xff") };
        let item = Item { key: Bytes::from_static(b"k"), size: None, payload };
        let assignment = assignment();
        let batch = Batch { assignment: &assignment, sequence: 0, items: &[item], attempt: 2 };
        assert!(written(|out| items(out, 1, &batch)).contains(r#""item":{"base64":"/w=="}"#));
        let done = parse(br#"{"type":"done","id":1,"output":{"base64":"/w=="}}"#).unwrap();
        assert_eq!(done, Incoming::Done { id: 1, output: vec![0xff] });
    }

    #[test]
    fn unknown_fields_are_ignored_and_optional_ones_may_be_left_out() {
        let done = parse(br#"{"type":"done","id":1,"mood":"good"}"#).unwrap();
        assert_eq!(done, Incoming::Done { id: 1, output: Vec::new() });
        let failed = parse(br#"{"type":"failed","id":2,"detail":"no\nluck","retry":false}"#);
        let detail = Cow::Borrowed("no\nluck");
        assert_eq!(failed.unwrap(), Incoming::Failed { id: 2, detail, may_retry: false });
        assert_eq!(parse(br#"{"type":"revoked","id":3}"#).unwrap(), Incoming::Revoked { id: 3 });
    }

    #[test]
    fn a_malformed_line_is_in_the_error() {
        for line in [
            "",
            "done 1",
            "{}",
            r#"{"type":"done"}"#,
            r#"{"type":"hello"}"#,
            r#"{"type":"gone","id":1}"#,
            r#"{"type":"done","id":-1}"#,
            r#"{"type":"done","id":1,"output":{"base64":"%"}}"#,
        ] {
            let error = parse(line.as_bytes()).unwrap_err();
            assert!(matches!(&error, PersistentError::Malformed { line: it } if it == line));
        }
    }
}
