//! Any text is a value and a key of the text format, or a typed error.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses its own part")]
#[path = "../../crates/placement/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|text: &str| {
    checks::seed_format::value(text);
    checks::seed_format::key(text);
});
