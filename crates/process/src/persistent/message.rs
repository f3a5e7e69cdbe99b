//! The lines that a program and its worker exchange; `docs/worker-protocol.md` tells the rest.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use shardwright_contracts::RunId;
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Assignment, Batch};

use super::PersistentError;
use crate::record::KeyText;
use crate::template::text_of;

/// The version of the protocol that is spoken here.
pub(super) const VERSION: u64 = 1;

/// Some of a line that makes no sense, for whoever looks for the mistake.
const SHOWN_BYTES: usize = 120;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Told<'a> {
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

impl Told<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        // Nothing in it can fail to be written: there are no maps and no foreign types.
        let _written = serde_json::to_writer(&mut *out, self);
        out.push(b'\n');
    }
}

/// The first line.
pub(super) fn hello(out: &mut Vec<u8>, run: RunId) {
    let run = format!("{:016x}", run.as_raw());
    Told::Hello { version: VERSION, run }.write(out);
}

/// A line for each item of a batch; the first has the id `first`.
pub(super) fn items(out: &mut Vec<u8>, first: u64, batch: &Batch<'_>) {
    let Assignment { shard, fence, .. } = batch.assignment;
    let shard = format!("{:016x}", shard.as_raw());
    for (index, item) in (0..).zip(batch.items) {
        let Item { key, size, .. } = item;
        let line = ItemLine {
            id: first + index,
            item: KeyText::new(text_of(item)),
            key: KeyText::new(key),
            bytes: *size,
            shard: &shard,
            fence: fence.as_raw(),
            sequence: batch.sequence + index,
            attempt: batch.attempt,
        };
        Told::Item(line).write(out);
    }
}

/// Everything of a shard up to `key` is committed.
pub(super) fn checkpoint(out: &mut Vec<u8>, assignment: &Assignment, key: &[u8]) {
    let (shard, fence) = (format!("{:016x}", assignment.shard.as_raw()), assignment.fence.as_raw());
    Told::Checkpoint { shard, fence, key: KeyText::new(key) }.write(out);
}

/// A shard ends before `end` from now on.
pub(super) fn split(out: &mut Vec<u8>, assignment: &Assignment, end: &[u8]) {
    let (shard, fence) = (format!("{:016x}", assignment.shard.as_raw()), assignment.fence.as_raw());
    Told::Split { shard, fence, end: KeyText::new(end) }.write(out);
}

/// Items are not to be worked on any more.
pub(super) fn revoke(out: &mut Vec<u8>, ids: &[u64]) {
    Told::Revoke { ids }.write(out);
}

/// What a program says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard<'a> {
    Hello { version: u64 },
    Done { id: u64, output: Vec<u8> },
    Failed { id: u64, detail: Cow<'a, str>, may_retry: bool },
    Revoked { id: u64 },
}

/// All that a line of a program may hold. Flat, because it is read a hundred thousand times a
/// second; what is not known is passed over, so that later versions may say more.
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

/// Reads a line of a program.
pub(super) fn parse(line: &[u8]) -> Result<Heard<'_>, PersistentError> {
    let malformed = || PersistentError::Malformed { line: shown(line) };
    let Line { kind, version, id, output, detail, retry } =
        serde_json::from_slice(line).map_err(|_| malformed())?;
    if let Kind::Hello = kind {
        return Ok(Heard::Hello { version: version.ok_or_else(malformed)? });
    }
    let id = id.ok_or_else(malformed)?;
    Ok(match kind {
        Kind::Done => {
            let output = output.map(|output| output.to_bytes().ok_or_else(malformed));
            Heard::Done { id, output: output.transpose()?.unwrap_or_default() }
        }
        Kind::Failed => {
            let detail = detail.unwrap_or(Cow::Borrowed("the worker did not say why"));
            Heard::Failed { id, detail, may_retry: retry.unwrap_or(true) }
        }
        Kind::Revoked | Kind::Hello => Heard::Revoked { id },
    })
}

/// The beginning of a line, without anything that a terminal obeys.
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
    fn what_is_said_is_as_documented() {
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
    fn what_is_no_text_is_base64_both_ways() {
        let payload = Payload::Row { number: 0, bytes: Bytes::from_static(b"\xff") };
        let item = Item { key: Bytes::from_static(b"k"), size: None, payload };
        let assignment = assignment();
        let batch = Batch { assignment: &assignment, sequence: 0, items: &[item], attempt: 2 };
        assert!(written(|out| items(out, 1, &batch)).contains(r#""item":{"base64":"/w=="}"#));
        let done = parse(br#"{"type":"done","id":1,"output":{"base64":"/w=="}}"#).unwrap();
        assert_eq!(done, Heard::Done { id: 1, output: vec![0xff] });
    }

    #[test]
    fn a_program_may_say_more_than_is_known_and_leave_out_what_is_not_needed() {
        let done = parse(br#"{"type":"done","id":1,"mood":"good"}"#).unwrap();
        assert_eq!(done, Heard::Done { id: 1, output: Vec::new() });
        let failed = parse(br#"{"type":"failed","id":2,"detail":"no\nluck","retry":false}"#);
        let detail = Cow::Borrowed("no\nluck");
        assert_eq!(failed.unwrap(), Heard::Failed { id: 2, detail, may_retry: false });
        assert_eq!(parse(br#"{"type":"revoked","id":3}"#).unwrap(), Heard::Revoked { id: 3 });
    }

    #[test]
    fn what_makes_no_sense_is_told_with_the_line() {
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
