//! The run protocol on the file store passes the conformance suite.

use shardwright_coordination::conformance_suite;
use shardwright_store::file::{FileOptions, FileStore};
use tempfile::TempDir;

use crate::support::{Over, block_on};

fn over_a_folder() -> Over<TempDir> {
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    block_on(Over::new(store, folder))
}

conformance_suite!(over_a_folder(), block_on);
