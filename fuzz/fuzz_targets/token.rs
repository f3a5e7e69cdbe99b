//! Any bytes are the token of a cursor or a typed error.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses its own part")]
#[path = "../../crates/worker/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|data: &[u8]| checks::token::envelope(data));
