//! A disk on which one call takes longer than a lease.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use shardwright_connectors::FolderSink;
use shardwright_contracts::CursorSemantics::Completed;
use shardwright_contracts::LogicalTime;
use shardwright_worker::connector::Item;
use shardwright_worker::extent::{MAX_EXTENTS, TokenEnvelope};
use shardwright_worker::{RunOutcome, StopSignal, each};
use tokio::time::timeout;

use crate::support::{
    Coordinator, Journal, LONG, RUN, all, join, line, results, shards, sink, start_with_lease,
    worker_with, write_keys,
};

const LEASE_MS: u64 = 1_500;

/// Processes one item and releases the shard.
async fn do_one(coordinator: &Coordinator, sink: &FolderSink) {
    let stop = StopSignal::default();
    let stopping = stop.clone();
    let handler = each(move |item: Item| {
        stopping.stop();
        async move { Ok(line(&item)) }
    });
    let worker = worker_with(join(coordinator).await, handler, sink).stop(stop);
    assert_eq!(timeout(LONG, worker.run()).await.unwrap().unwrap(), RunOutcome::Stopped);
}

async fn deadline(coordinator: &Coordinator) -> Option<LogicalTime> {
    shards(coordinator).await[0].head.lease.map(|lease| lease.deadline)
}

/// Waits until a lease was renewed for more than twice its length.
async fn is_renewed(coordinator: &Coordinator) {
    let mut first = None;
    loop {
        if let Some(deadline) = deadline(coordinator).await {
            let first = *first.get_or_insert(deadline);
            if deadline.millis_since(first) > 2 * LEASE_MS {
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Replaces a file by a pipe, so that reading it blocks. Returns its bytes.
fn block_reads(file: &Path) -> Vec<u8> {
    let bytes = fs::read(file).unwrap();
    fs::remove_file(file).unwrap();
    mkfifoat(CWD, file, Mode::RWXU).unwrap();
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gathering_results_from_a_slow_disk_keeps_the_lease() {
    let items = MAX_EXTENTS + 2;
    let coordinator = start_with_lease(items, 1, Completed, LEASE_MS).await;
    let (_folder, sink) = sink();
    for _ in 0..MAX_EXTENTS {
        do_one(&coordinator, &sink).await;
    }
    let shard = &shards(&coordinator).await[0];
    let extents = TokenEnvelope::decode(shard.cursor.as_update().token()).unwrap().extents;
    assert_eq!(extents.len(), MAX_EXTENTS);
    let file = sink.segment_path(RUN, extents[20].shard, extents[20].fence);
    let bytes = block_reads(&file);
    let journal = Journal::default();
    let worker = worker_with(join(&coordinator).await, write_keys(), &sink)
        .observer(Arc::new(journal.clone()));
    let working = tokio::spawn(worker.run());
    let (go_on, may_go_on) = mpsc::channel::<()>();
    // A thread of its own writes the pipe in any case, because the blocked read cannot be stopped.
    let disk = std::thread::spawn(move || {
        let is_in_time = may_go_on.recv_timeout(LONG / 4).is_ok();
        let mut pipe = fs::File::options().write(true).open(&file).unwrap();
        fs::remove_file(&file).unwrap();
        fs::write(&file, &bytes).unwrap();
        pipe.write_all(&bytes).unwrap();
        is_in_time
    });
    timeout(LONG, is_renewed(&coordinator)).await.unwrap();
    go_on.send(()).unwrap();
    assert!(disk.join().unwrap(), "{:?}", journal.lines());
    assert_eq!(timeout(LONG, working).await.unwrap().unwrap().unwrap(), RunOutcome::Done);
    let events = ["claimed", "lost"].map(|kind| journal.count(kind));
    assert_eq!(events, [1, 0], "{:?}", journal.lines());
    assert_eq!(results(&coordinator, &sink).await, all(items));
}
