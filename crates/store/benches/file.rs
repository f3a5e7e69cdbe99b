//! Durable commits per second of the file store, compared with the disk.
//!
//! A commit has three expectations and one put of 300 bytes. Run it with `cargo bench -p
//! shardwright-store`, or with `-- 256` for that number of callers only. `TMPDIR` chooses the
//! folder.
#![allow(clippy::print_stdout, reason = "a bench prints")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench that fails panics")]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shardwright_store::file::{FileOptions, FileStore};
use shardwright_store::{Commit, Expect, Key, Revision, Store};
use tempfile::TempDir;

const TIME: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;
const SHARDS: usize = 10_000;

fn main() {
    // Test runners start every bench with this argument.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let only = std::env::args().find_map(|argument| argument.parse::<usize>().ok());
    let disk = median(sync_rate);
    println!("fdatasync after an append of 4 KiB: {disk:.0}/s");
    let bare = median(bare_rate);
    println!("bare SQLite, one put and one sync:  {bare:.0}/s  {:.2} x the disk", bare / disk);
    let all = vec![1, 16, 256];
    for callers in only.map_or(all, |callers| vec![callers]) {
        for threads in [1, 2] {
            let mut slowest = Duration::ZERO;
            let rate = median(|| {
                let (rate, p99) = commit_rate(callers, threads);
                slowest = slowest.max(p99);
                rate
            });
            println!(
                "{callers:4} callers on {threads} threads: {rate:8.0}/s  {:6.2} x the disk, \
                 {:.2} x bare, p99 {slowest:?}",
                rate / disk,
                rate / bare,
            );
        }
    }
}

fn median(mut measure: impl FnMut() -> f64) -> f64 {
    let mut rates: Vec<f64> = (0..ROUNDS).map(|_| measure()).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(ROUNDS / 2).copied().unwrap_or_default()
}

fn rate(count: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap()) / time.as_secs_f64()
}

fn sync_rate() -> f64 {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("appended");
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < TIME {
        file.write_all(&[7; 4_096]).unwrap();
        file.sync_data().unwrap();
        count += 1;
    }
    rate(count, begin.elapsed())
}

fn bare_rate() -> f64 {
    let folder = TempDir::new().unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("bare.db")).unwrap();
    let set_up = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                  CREATE TABLE entry (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID";
    connection.execute_batch(set_up).unwrap();
    let sql = "INSERT OR REPLACE INTO entry VALUES (?1, ?2)";
    let mut put = connection.prepare(sql).unwrap();
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < TIME {
        let key = format!("run/1/shard/{:08}", count * 7_919 % SHARDS);
        put.execute((key.as_bytes(), [7_u8; 300].as_slice())).unwrap();
        count += 1;
    }
    rate(count, begin.elapsed())
}

fn commit_rate(callers: usize, threads: usize) -> (f64, Duration) {
    let folder = TempDir::new().unwrap();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(threads).enable_all().build().unwrap();
    let store = Arc::new(FileStore::open(folder.path(), FileOptions::default()).unwrap());
    let keys = |shard: usize| Key::from(format!("run/1/shard/{shard:08}"));
    let (gate, owners) = runtime.block_on(register(&store, callers));
    let begin = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let store = Arc::clone(&store);
            let owner = owners[caller];
            runtime.spawn(async move {
                let mut at: Vec<_> = (caller..SHARDS).step_by(callers).map(|_| None).collect();
                let mut times = Vec::new();
                for turn in 0.. {
                    if begin.elapsed() > TIME {
                        break;
                    }
                    let place = turn % at.len();
                    let key = keys(caller + place * callers);
                    let expect = at[place].map_or(Expect::Absent, Expect::At);
                    let commit = Commit::builder()
                        .guard(Key::from("run/1/gate"), Expect::At(gate))
                        .expect(Key::from(format!("run/1/owner/{caller:08}")), Expect::At(owner))
                        .expect(key.clone(), expect)
                        .put(key, vec![7; 300]);
                    let started = Instant::now();
                    at[place] = Some(store.commit(commit.build().unwrap()).await.unwrap());
                    times.push(started.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(runtime.block_on(task).unwrap());
    }
    let elapsed = begin.elapsed();
    times.sort();
    let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
    (rate(times.len(), elapsed), p99)
}

/// Puts the gate of a run and the owners of its shards.
async fn register(store: &FileStore, callers: usize) -> (Revision, Vec<Revision>) {
    let create = |key: Key| {
        let commit = Commit::builder().expect(key.clone(), Expect::Absent).put(key, "here");
        store.commit(commit.build().unwrap())
    };
    let gate = create(Key::from("run/1/gate")).await.unwrap();
    let mut owners = Vec::new();
    for caller in 0..callers {
        owners.push(create(Key::from(format!("run/1/owner/{caller:08}"))).await.unwrap());
    }
    (gate, owners)
}
