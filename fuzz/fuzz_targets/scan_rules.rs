//! Any text is a rule file, or is refused; never a panic.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use shardwright_scan::{RuleSet, Scanner, Scratch, Secrecy};

fuzz_target!(|text: &str| {
    if let Ok(rules) = RuleSet::parse("fuzz", text, Path::new("/nonexistent"))
        && let Ok(scanner) = Scanner::new(rules, Secrecy::Redacted)
    {
        let _ = scanner.scan(b"fuzz", text.as_bytes(), &mut Scratch::new());
    }
});
