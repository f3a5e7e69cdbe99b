//! The name of a test is a claim: several words, at most 60 characters.

use super::Violation;
use super::sources::Sources;
use crate::test_names::tests_in;

/// The longest name.
const MAX: usize = 60;

/// Names that the specification of a crate prescribes.
const PRESCRIBED: [&str; 11] = [
    "add_manifest_with_inverted_rows_returns_manifest_ctor_invalid",
    "propagate_hint_on_split_manifest_rejects_end_manifest_id_mismatch",
    "propagate_hint_on_split_manifest_rejects_end_row_beyond_parent",
    "propagate_hint_on_split_manifest_rejects_manifest_id_mismatch",
    "propagate_hint_on_split_manifest_rejects_non_manifest_boundaries",
    "propagate_hint_on_split_manifest_rejects_non_manifest_end_boundary",
    "propagate_hint_on_split_manifest_rejects_out_of_parent_bounds",
    "shard_hint_decode_returns_consumed_length_with_trailing_bytes",
    "shard_spec_from_manifest_range_rejects_inverted_or_degenerate",
    "split_manifest_by_rows_capacity_exceeded_has_no_partial_writes",
    "split_manifest_by_rows_fan_out_exceeded_has_no_partial_writes",
];

/// Every test whose name is too long, or a single word. Names that a macro inserts begin with `$`.
pub(crate) fn check(sources: &Sources) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in &sources.rust {
        for (line, name) in tests_in(text) {
            if name.len() > MAX && !PRESCRIBED.contains(&&*name) {
                let what = format!("the name of a test with {} characters", name.len());
                let instead = format!("state the claim in at most {MAX}");
                violations.push(Violation::new(path, line, what, instead));
            } else if !name.contains(['_', '$']) {
                let what = format!("the test `{name}` claims nothing");
                violations.push(Violation::new(path, line, what, "name what it checks"));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str) -> usize {
        let test = format!("#[{}]\nasync fn {name}<T>() {{}}", "tokio::test");
        check(&Sources::from_texts(&[("a.rs", &test)])).len()
    }

    #[test]
    fn long_names_and_single_words_are_violations() {
        assert_eq!(found("zombie_checkpoint_is_fenced"), 0);
        assert_eq!(found(&format!("a_{}", "b".repeat(MAX - 2))), 0);
        assert_eq!(found(&format!("a_{}", "b".repeat(MAX - 1))), 1);
        assert_eq!(found("part"), 1);
        assert_eq!(found("$name"), 0);
        assert_eq!(found(PRESCRIBED[0]), 0);
    }

    #[test]
    fn functions_without_a_test_attribute_may_have_any_name() {
        let text = format!("fn {}() {{}}", "x".repeat(80));
        assert_eq!(check(&Sources::from_texts(&[("a.rs", &text)])).len(), 0);
    }
}
