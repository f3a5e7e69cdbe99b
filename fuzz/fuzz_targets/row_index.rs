//! Any bytes are a saved row index or none. The index is private, so its modules are included here.
#![no_main]
#![allow(dead_code, reason = "the target uses a part of the modules")]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/connectors/src/lines/checks.rs"]
mod checks;
#[path = "../../crates/connectors/src/lines/index.rs"]
mod index;
#[path = "../../crates/connectors/src/lines/saved.rs"]
mod saved;

/// What the included modules use of the crate's files.
mod files {
    pub(crate) use shardwright_connectors::open_regular;
}

/// What the included modules use of the connector's file.
mod source {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Stamp {
        pub(super) size: u64,
        pub(super) device: u64,
        pub(super) inode: u64,
        pub(super) modified: (i64, i64),
        pub(super) changed: (i64, i64),
    }
}

fuzz_target!(|input: (&[u8], u64)| checks::saved_index(input.0, input.1));
