//! Any bytes, in any pieces, are scanned without a panic and with the same result.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use shardwright_scan::{RuleSet, Scanner, Scratch, Secrecy, Windows};

static SCANNER: LazyLock<Scanner> = LazyLock::new(|| {
    let rules = RuleSet::built_in().expect("the default rules are sound");
    Scanner::with_windows(rules, Secrecy::Shown, Windows::new(0, 1 << 15)).expect("so are these")
});

fuzz_target!(|input: (&[u8], u8, &[u8])| {
    let (path, step, bytes) = input;
    let mut scratch = Scratch::new();
    let whole = SCANNER.scan(path, bytes, &mut scratch);
    let mut scan = SCANNER.begin(path, &mut scratch);
    bytes.chunks(usize::from(step).max(1)).for_each(|piece| scan.add(piece));
    assert_eq!(scan.finish(), whole);
});
