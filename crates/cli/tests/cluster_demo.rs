//! The demonstration of clusters, in short.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that panics is a test that fails"
)]

#[allow(dead_code, reason = "each test uses its own part")]
mod support;

use serde_json::Value;
use support::Site;

#[test]
fn the_demonstration_keeps_its_promises() {
    let site = Site::new();
    let arguments = ["--json", "demo", "cluster", "--rate", "50", "--calm-ms", "500"];
    let told = site.expect(0, &arguments);
    let end: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!(end["broken"], Value::Array(Vec::new()), "{end}");
    for (at, name) in ["calm", "join", "terminate", "kill"].into_iter().enumerate() {
        let phase = &end["phases"][at];
        assert_eq!(phase["phase"], name);
        assert!(name == "kill" || phase["failed"] == 0, "{phase}");
    }
    assert!(end["acknowledged"].as_u64().unwrap() > 50, "{end}");
}
