//! Key arithmetic agrees with arithmetic on big integers.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses its own part")]
#[path = "../../crates/frontier/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|keys: (&[u8], &[u8])| checks::arithmetic::against_big_integers(keys.0, keys.1));
