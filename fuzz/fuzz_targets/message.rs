//! Any bytes are a message of each type or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses its own part")]
#[path = "../../crates/api/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|data: &[u8]| checks::message::any_type(data));
