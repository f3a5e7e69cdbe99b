//! Any bytes are a stored record or a typed error.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses its own part")]
#[path = "../../crates/engine/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|data: &[u8]| checks::record::any_kind(data));
