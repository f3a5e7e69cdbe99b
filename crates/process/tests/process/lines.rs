//! Lines of the worker protocol come from any program.

use proptest::prelude::*;

use crate::checks;

/// Lines that often are messages.
fn lines() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec!["hello", "done", "failed", "revoked", "gone"]);
    let field = prop_oneof![
        any::<u64>().prop_map(|id| format!(r#""id":{id}"#)),
        any::<i8>().prop_map(|version| format!(r#""version":{version}"#)),
        ".{0,10}".prop_map(|text| format!(r#""output":{}"#, serde_json::json!(text))),
        "[A-Za-z0-9+/=]{0,8}".prop_map(|text| format!(r#""output":{{"base64":"{text}"}}"#)),
        ".{0,10}".prop_map(|text| format!(r#""detail":{}"#, serde_json::json!(text))),
        any::<bool>().prop_map(|retry| format!(r#""retry":{retry}"#)),
    ];
    (kind, prop::collection::vec(field, 0..4))
        .prop_map(|(kind, fields)| format!(r#"{{"type":"{kind}",{}}}"#, fields.join(",")))
}

proptest! {
    #[test]
    fn any_bytes_are_a_worker_line_or_an_error(
        line in lines(),
        any_bytes in prop::collection::vec(any::<u8>(), 0..200),
        depth in 0..2_000_usize,
    ) {
        checks::worker_line::line(line.as_bytes());
        checks::worker_line::line(&any_bytes);
        checks::worker_line::line("[".repeat(depth).as_bytes());
        checks::worker_line::line(r#"{"output":"#.repeat(depth).as_bytes());
    }
}
