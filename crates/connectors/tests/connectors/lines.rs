//! Rows of files, and files that change.

use std::fs::{self, FileTimes, OpenOptions};
use std::io::{Cursor, Read, Write};
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use shardwright_connectors::{LineConnector, LineOptions, Separator, spool};
use shardwright_worker::connector::{
    Connector, ConnectorError, Item, PageLimit, Payload, Position, Quantity, conformance,
};
use tempfile::TempDir;

use crate::support::read_whole;

struct Fixture {
    folder: TempDir,
    path: PathBuf,
}

impl Fixture {
    fn new(content: &[u8]) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("rows");
        fs::write(&path, content).unwrap();
        Self { folder, path }
    }

    async fn open(&self) -> LineConnector {
        LineConnector::open(&self.path).await.unwrap()
    }
}

fn nul() -> LineOptions {
    LineOptions { separator: Separator::Nul, ..LineOptions::default() }
}

async fn everything(lines: &LineConnector) -> Vec<Item> {
    read_whole(lines, &lines.whole_range()).await.items
}

fn texts(items: &[Item]) -> Vec<&[u8]> {
    items
        .iter()
        .filter_map(|item| match &item.payload {
            Payload::Row { bytes, .. } => Some(bytes.as_ref()),
            Payload::File(_) | Payload::Object { .. } => None,
        })
        .collect()
}

#[tokio::test]
async fn every_row_is_an_item() {
    let fixture = Fixture::new(b"one\n\nthree\r\nfour\rx\nlast\r");
    let items = everything(&fixture.open().await).await;
    let expected: [&[u8]; 5] = [b"one", b"", b"three", b"four\rx", b"last\r"];
    assert_eq!(texts(&items), expected);
    let sizes: u64 = items.iter().map(|item| item.size.unwrap()).sum();
    assert_eq!(sizes, fs::metadata(&fixture.path).unwrap().len());
    assert!(matches!(items[2].payload, Payload::Row { number: 2, .. }));
}

#[tokio::test]
async fn rows_that_end_with_nul_may_contain_newlines() {
    let fixture = Fixture::new(b"a\nb\r\0\0c");
    let items = everything(&LineConnector::open_with(&fixture.path, nul()).await.unwrap()).await;
    assert_eq!(texts(&items), [&b"a\nb\r"[..], b"", b"c"]);
}

#[tokio::test]
async fn an_empty_file_has_no_rows_and_one_range() {
    let lines = Fixture::new(b"").open().await;
    assert!(everything(&lines).await.is_empty());
    assert_eq!(lines.initial_ranges(9).await.unwrap(), [lines.whole_range()]);
    assert!(conformance::check(&lines).await.is_empty());
}

#[tokio::test]
async fn a_row_that_is_too_long_is_reported() {
    let fixture = Fixture::new(b"short\nfar too long\nshort");
    let options = LineOptions { row_bytes_max: 8, ..LineOptions::default() };
    let opened = LineConnector::open_with(&fixture.path, options).await;
    let error = opened.err().unwrap();
    assert!(matches!(error, ConnectorError::RowTooLong { row: 1, limit: 8, .. }), "{error}");
    assert!(error.to_string().starts_with("row 2 of "), "rows are shown from 1: {error}");
}

#[tokio::test]
async fn a_row_longer_than_a_page_is_a_page_of_its_own() {
    let long = vec![b'x'; 3_000_000];
    let fixture = Fixture::new(&[b"a\n", long.as_slice(), b"\nb\n"].concat());
    let lines = fixture.open().await;
    let limit = PageLimit { bytes: 1_000, ..PageLimit::items(10) };
    let whole = lines.whole_range();
    let first = lines.page(&whole, &Position::after(whole.start.clone()), limit).await.unwrap();
    assert_eq!(texts(&first.items), [long.as_slice()]);
    let rest = lines.page(&whole, &first.next_position().unwrap(), limit).await.unwrap();
    assert_eq!(texts(&rest.items), [b"b"]);
    assert!(rest.ended);
}

#[tokio::test]
async fn splits_and_estimates_are_by_bytes() {
    let long = vec![b'x'; 999];
    let fixture = Fixture::new(&[b"a\n".repeat(500), long, b"\nb\n".to_vec()].concat());
    let lines = fixture.open().await;
    let whole = lines.whole_range();
    let items = everything(&lines).await;
    let cut = lines.propose_split(&whole, None, 0.5).await.unwrap().unwrap();
    assert_eq!(cut, items[501].key, "half of the bytes lie in the last but one row");
    let cut = lines.propose_split(&whole, None, 0.25).await.unwrap().unwrap();
    assert_eq!(cut, items[250].key);
    let estimate = lines.estimate(&whole, Some(&items[499].key)).await.unwrap();
    assert_eq!((estimate.items, estimate.bytes), (Quantity::Exact(2), Quantity::Exact(1_002)));
}

#[tokio::test]
async fn initial_ranges_hold_about_the_same_bytes() {
    let fixture = Fixture::new(&b"0123456789\n".repeat(1_000));
    let lines = fixture.open().await;
    let ranges = lines.initial_ranges(8).await.unwrap();
    assert_eq!(ranges.len(), 8);
    for range in ranges {
        let items = lines.estimate(&range, None).await.unwrap().items.value().unwrap();
        assert!((124..=126).contains(&items), "{items}");
    }
}

#[tokio::test]
async fn writing_to_the_file_is_an_error_but_replacing_it_is_not() {
    let fixture = Fixture::new(b"one\ntwo\nthree\n");
    let lines = fixture.open().await;
    let whole = lines.whole_range();
    let start = Position::start();
    let read = || lines.page(&whole, &start, PageLimit::default());
    let beside = fixture.folder.path().join("beside");
    fs::hard_link(&fixture.path, &beside).unwrap();
    fs::rename(&beside, fixture.folder.path().join("moved")).unwrap();
    fs::remove_file(&fixture.path).unwrap();
    fs::write(&fixture.path, b"other\n").unwrap();
    assert_eq!(texts(&read().await.unwrap().items), [&b"one"[..], b"two", b"three"]);
    let moved = fixture.folder.path().join("moved");
    OpenOptions::new().append(true).open(&moved).unwrap().write_all(b"four\n").unwrap();
    assert!(matches!(read().await, Err(ConnectorError::SourceChanged { .. })));
    fs::write(&moved, b"one\n").unwrap();
    assert!(matches!(read().await, Err(ConnectorError::SourceChanged { .. })));
}

#[tokio::test]
async fn moved_rows_are_detected_with_equal_size_and_time() {
    let fixture = Fixture::new(b"one\ntwo\nthree\n");
    let lines = fixture.open().await;
    let whole = lines.whole_range();
    let first = lines.page(&whole, &Position::start(), PageLimit::items(1)).await.unwrap();
    let before = fs::metadata(&fixture.path).unwrap().modified().unwrap();
    let mut file = OpenOptions::new().write(true).open(&fixture.path).unwrap();
    file.write_all(b"other\nrow").unwrap();
    file.set_times(FileTimes::new().set_modified(before)).unwrap();
    let position = first.next_position().unwrap();
    let second = lines.page(&whole, &position, PageLimit::items(1)).await;
    assert!(matches!(second, Err(ConnectorError::SourceChanged { .. })), "{second:?}");
}

#[tokio::test]
async fn the_fingerprint_is_the_content_and_the_separator() {
    let one = Fixture::new(b"one\ntwo\n");
    let same = Fixture::new(b"one\ntwo\n");
    let other = Fixture::new(b"one\ntwO\n");
    let fingerprint = |lines: LineConnector| async move { lines.fingerprint().await.unwrap() };
    let expected = fingerprint(one.open().await).await;
    assert!(expected.identity.starts_with("lines newline 8 blake3:"), "{expected}");
    assert!(expected.is_same_source(&fingerprint(same.open().await).await));
    assert!(!expected.is_same_source(&fingerprint(other.open().await).await));
    assert!(!expected.is_same_source(
        &fingerprint(LineConnector::open_with(&one.path, nul()).await.unwrap()).await
    ));
}

#[tokio::test]
async fn a_folder_or_a_pipe_is_rejected_without_waiting() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    for path in [pipe, folder.path().to_owned()] {
        let opened = LineConnector::open(path).await;
        assert!(matches!(opened, Err(ConnectorError::NotAFile { .. })));
    }
}

#[tokio::test]
async fn a_pipe_is_spooled_atomically() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the pipe broke"))
        }
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("spooled");
    let broken = spool(Cursor::new(b"one\n").chain(Broken), &path).await;
    assert!(matches!(broken, Err(ConnectorError::Io { .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    assert_eq!(spool(Cursor::new(b"one\ntwo"), &path).await.unwrap(), 7);
    let lines = LineConnector::open(&path).await.unwrap();
    assert_eq!(lines.rows(), 2);
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let row = prop_oneof![
        3 => proptest::collection::vec(proptest::sample::select(b"ab\r\0,\xff".to_vec()), 0..12),
        1 => proptest::collection::vec(Just(b'x'), 0..9_000),
    ];
    (proptest::collection::vec(row, 0..60), any::<bool>()).prop_map(|(rows, ended)| {
        let mut content = rows.join(&b'\n');
        if ended {
            content.push(b'\n');
        }
        content
    })
}

/// Rows by the simplest code.
fn plain_rows(content: &[u8], separator: u8) -> Vec<Vec<u8>> {
    let mut rows: Vec<Vec<u8>> =
        content.split(|byte| *byte == separator).map(<[u8]>::to_vec).collect();
    let ended = rows.last().is_some_and(Vec::is_empty);
    if ended {
        rows.pop();
    }
    let last = rows.len().saturating_sub(usize::from(!ended));
    if separator == b'\n' {
        for row in rows.iter_mut().take(last).filter(|row| row.last() == Some(&b'\r')) {
            row.pop();
        }
    }
    rows
}

#[test]
fn files_with_any_content_conform() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let mut runner = TestRunner::new(Config::with_cases(24));
    let outcome = runner.run(&(content(), any::<bool>()), |(content, is_nul)| {
        let fixture = Fixture::new(&content);
        let options = if is_nul { nul() } else { LineOptions::default() };
        let items = runtime.block_on(async {
            let lines = LineConnector::open_with(&fixture.path, options).await.unwrap();
            conformance::check(&lines).await
        });
        let expected = plain_rows(&content, if is_nul { 0 } else { b'\n' });
        let found: Vec<Vec<u8>> = texts(&items).into_iter().map(<[u8]>::to_vec).collect();
        prop_assert_eq!(found, expected);
        Ok(())
    });
    outcome.unwrap();
}
