//! No text hides a password in a URL from its redaction.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses its own part")]
#[path = "../../crates/connectors/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|text: &str| checks::redaction::redaction(text));
