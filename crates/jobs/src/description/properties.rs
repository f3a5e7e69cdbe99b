//! Descriptions of runs come from the store.

use proptest::prelude::*;

use super::Description;
use crate::checks;

const SOURCES: [&str; 7] = [
    r#"{"kind":"tree","path":"/data","gitignore":true}"#,
    r#"{"kind":"tree","path":"/data","gitignore":false,"filter":{"include":["*"],"follow":true}}"#,
    r#"{"kind":"paths","paths":["/a/b/","/c",{"base64":"L/8="}],"gitignore":false}"#,
    r#"{"kind":"objects","url":"s3://bucket","filter":{"exclude":["["]}}"#,
    r#"{"kind":"lines","path":{"base64":"L/8="},"null":false,"piped":true}"#,
    r#"{"kind":"objects","url":"s3://bucket/prefix"}"#,
    r#"{"kind":"library","identity":"numbers"}"#,
];
const MODES: [&str; 5] = [
    r#"{"kind":"item"}"#,
    r#"{"kind":"batch","size":7,"null":true}"#,
    r#"{"kind":"persistent"}"#,
    r#"{"kind":"scan","shows_secrets":false}"#,
    r#"{"kind":"library"}"#,
];
const RESULTS: [&str; 3] = [
    r#"{"kind":"folder","path":"/results"}"#,
    r#"{"kind":"objects","url":"s3://bucket/results"}"#,
    r#"{"kind":"local"}"#,
];
const PLACEHOLDERS: [&str; 4] = [
    "",
    r#""placeholders":{"kind":"item_only"},"#,
    r#""placeholders":{"kind":"parallel","item":"{}"},"#,
    r#""placeholders":{"kind":"parallel","item":{"base64":"/w=="}},"#,
];
const RANGES: [&str; 4] =
    ["[]", r#"[["00","ff"]]"#, r#"[["00","7f"],["7f","ff"]]"#, r#"[["x",""]]"#];

fn descriptions() -> impl Strategy<Value = String> {
    let parts = (
        prop::sample::select(SOURCES.to_vec()),
        prop::sample::select(MODES.to_vec()),
        prop::sample::select(RESULTS.to_vec()),
        prop::sample::select(RANGES.to_vec()),
        prop::sample::select(PLACEHOLDERS.to_vec()),
        ".{0,8}",
        any::<Option<u64>>(),
    );
    parts.prop_map(|(source, mode, results, ranges, placeholders, word, listed)| {
        let (word, listed) = (serde_json::json!(word), serde_json::json!(listed));
        format!(
            r#"{{"version":1,"source":{source},"fingerprint":{word},"listed_at_ms":{listed},
                "command":["cat",{word}],{placeholders}"mode":{mode},"given":{word},
                "results":{results},"ranges":{ranges}}}"#
        )
    })
}

proptest! {
    #[test]
    fn any_bytes_are_a_description_or_an_error(
        description in descriptions(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        any_bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        prop_assert!(Description::decode(description.as_bytes()).is_ok(), "{description}");
        checks::description::description(description.as_bytes());
        checks::description::description(&any_bytes);
        let mut changed = description.into_bytes();
        for (index, byte) in changes {
            *index.get_mut(&mut changed) = byte;
        }
        checks::description::description(&changed);
    }
}
