//! The run protocol over the store in a folder passes the suite that every backend passes.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use shardwright_coordination::conformance_suite;
use shardwright_store::file::{FileOptions, FileStore};
use support::{Over, block_on};
use tempfile::TempDir;

fn over_a_folder() -> Over<FileStore, TempDir> {
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    block_on(Over::new(store, folder))
}

conformance_suite!(over_a_folder(), block_on);
