//! Any bytes are the description of a run or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses its own part")]
#[path = "../../crates/jobs/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|data: &[u8]| checks::description::description(data));
