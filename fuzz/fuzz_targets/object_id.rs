//! Any text is an object id and a node address, or a typed error.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses its own part")]
#[path = "../../crates/placement/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|text: &str| {
    checks::object_id::object_id(text);
    checks::object_id::node_address(text);
});
