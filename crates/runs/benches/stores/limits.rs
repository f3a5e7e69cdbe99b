//! Baselines: the disk, and bare SQLite.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ROUNDS;

const TIME: Duration = Duration::from_secs(2);

pub(crate) fn median(mut measure: impl FnMut() -> f64) -> f64 {
    let mut rates: Vec<f64> = (0..ROUNDS).map(|_| measure()).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(ROUNDS / 2).copied().unwrap_or_default()
}

pub(crate) fn sync_rate() -> f64 {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("appended");
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    repeat(|_| {
        file.write_all(&[7; 4_096]).unwrap();
        file.sync_data().unwrap();
    })
}

pub(crate) fn bare_rate() -> f64 {
    let folder = TempDir::new().unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("bare.db")).unwrap();
    let set_up = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                  CREATE TABLE entry (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID";
    connection.execute_batch(set_up).unwrap();
    let mut put = connection.prepare("INSERT OR REPLACE INTO entry VALUES (?1, ?2)").unwrap();
    repeat(|count| {
        let key = format!("shard/{:08}", count * 7_919 % 10_000);
        put.execute((key.as_bytes(), [7_u8; 300].as_slice())).unwrap();
    })
}

fn repeat(mut call: impl FnMut(u32)) -> f64 {
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < TIME {
        call(count);
        count += 1;
    }
    f64::from(count) / begin.elapsed().as_secs_f64()
}
