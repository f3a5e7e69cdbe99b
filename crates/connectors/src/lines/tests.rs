//! The saved row index.

use std::fs;
use std::time::Duration;

use tempfile::TempDir;

use super::*;

struct Fixture {
    _folder: TempDir,
    path: PathBuf,
    options: LineOptions,
}

impl Fixture {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("rows");
        fs::write(&path, b"one\ntwo\n").unwrap();
        let index = Some(folder.path().join("index"));
        Self { _folder: folder, path, options: LineOptions { index, ..LineOptions::default() } }
    }

    fn index(&self) -> &Path {
        self.options.index.as_deref().unwrap()
    }

    /// Opens the file some time after it was written.
    fn open(&self, later: Duration) -> Lines {
        Lines::open(&self.path, &self.options, SystemTime::now() + later).unwrap()
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn the_index_of_a_just_written_file_is_not_saved() {
    let fixture = Fixture::new();
    fixture.open(Duration::ZERO);
    assert!(!fixture.index().exists(), "another write may come within the same clock tick");
    fixture.open(HOUR);
    assert!(fixture.index().exists());
}

#[test]
fn a_saved_index_is_used_until_the_file_changes() {
    let fixture = Fixture::new();
    let Lines { source, index, digest, .. } = fixture.open(HOUR);
    // Only a connector that does not read the file returns this digest.
    let counted = Counted { digest: [7; 32], index };
    let (at, now) = (fixture.index(), SystemTime::now() + HOUR);
    let longest = fixture.options.row_bytes_max;
    saved::save(at, &source.stamp, b'\n', longest, &counted, now).unwrap();
    assert_eq!(fixture.open(HOUR).digest, [7; 32]);
    fs::write(&fixture.path, b"one\ntwo\n").unwrap();
    assert_eq!(fixture.open(HOUR).digest, digest, "a changed ctime means another file");
}

#[test]
fn a_damaged_index_is_replaced() {
    let fixture = Fixture::new();
    let digest = fixture.open(HOUR).digest;
    let whole = fs::read(fixture.index()).unwrap();
    fs::write(fixture.index(), whole.get(..whole.len() - 9).unwrap()).unwrap();
    assert_eq!(fixture.open(HOUR).digest, digest);
    assert_eq!(fs::read(fixture.index()).unwrap(), whole);
}

#[test]
fn pipe_in_place_of_an_index_is_not_waited_for() {
    let fixture = Fixture::new();
    assert!(std::process::Command::new("mkfifo").arg(fixture.index()).status().unwrap().success());
    assert_eq!(fixture.open(HOUR).index.rows, 2);
    assert!(fs::metadata(fixture.index()).unwrap().is_file(), "it was replaced");
}

#[test]
fn an_index_that_cannot_be_saved_is_no_error() {
    let mut fixture = Fixture::new();
    fixture.options.index = Some(PathBuf::from("/nowhere/at/all"));
    assert_eq!(fixture.open(HOUR).index.rows, 2);
}

#[test]
fn keys_and_tokens_have_a_fixed_format() {
    let fixture = Fixture::new();
    let lines = fixture.open(Duration::ZERO);
    let page = lines.page((0, 2), &[], PageLimit::items(1)).unwrap();
    let digest = blake3::hash(b"one\ntwo\n");
    let id = digest.as_bytes().get(..8).unwrap();
    assert_eq!(page.items[0].key, [id, &[0; 8]].concat());
    let position = [[1, 0, 0, 0, 0, 0, 0, 0], [4, 0, 0, 0, 0, 0, 0, 0]].concat();
    let proof = blake3::keyed_hash(digest.as_bytes(), &position);
    assert_eq!(page.token, [position.as_slice(), &proof.as_bytes()[..8]].concat());
}
