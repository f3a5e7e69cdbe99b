//! Any bytes are a key of the store or none.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses its own part")]
#[path = "../../crates/cluster/tests/checks/mod.rs"]
mod cluster;
#[allow(dead_code, reason = "each target uses its own part")]
#[path = "../../crates/runs/tests/checks/mod.rs"]
mod runs;

fuzz_target!(|data: &[u8]| {
    runs::store_key::any_bytes(data);
    cluster::cluster_key::any_bytes(data);
});
