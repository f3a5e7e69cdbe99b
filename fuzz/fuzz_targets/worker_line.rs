//! Any bytes are a line of the worker protocol or a typed error.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses its own part")]
#[path = "../../crates/process/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|data: &[u8]| checks::worker_line::line(data));
