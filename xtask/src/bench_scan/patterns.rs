//! The patterns of our default rules, for others to look for.

use std::path::Path;

use anyhow::{Context, Result};

/// A rule, as far as others can have it too.
pub(super) struct Pattern {
    pub(super) id: String,
    pub(super) regex: String,
    pub(super) entropy: f64,
}

pub(super) fn read(rules: &Path) -> Result<Vec<Pattern>> {
    let text = std::fs::read_to_string(rules).with_context(|| rules.display().to_string())?;
    let table: toml::Table = text.parse()?;
    let rules = table.get("rules").and_then(toml::Value::as_array).context("there are no rules")?;
    let pattern = |rule: &toml::Value| {
        let text = |field: &str| rule.get(field)?.as_str().map(str::to_owned);
        let entropy = rule.get("entropy").and_then(toml::Value::as_float).unwrap_or_default();
        Some(Pattern { id: text("id")?, regex: text("regex")?, entropy })
    };
    Ok(rules.iter().filter_map(pattern).collect())
}

/// One pattern per line. What spans lines is cut to its first, because a search by lines can find
/// no more.
pub(super) fn as_lines(patterns: &[Pattern]) -> String {
    let line = |pattern: &Pattern| match pattern.regex.split_once("-----(.") {
        Some((first, _)) => format!("{first}-----\n"),
        None => format!("{}\n", pattern.regex),
    };
    patterns.iter().map(line).collect()
}

/// The rules in Kingfisher's format.
pub(super) fn as_kingfisher(patterns: &[Pattern]) -> String {
    let rule = |pattern: &Pattern| {
        format!(
            "  - name: {id}\n    id: bench.{id}\n    pattern: |-\n      {regex}\n    \
             min_entropy: {entropy:.1}\n    confidence: medium\n    examples: []\n",
            id = pattern.id,
            regex = pattern.regex,
            entropy = pattern.entropy,
        )
    };
    format!("rules:\n{}", patterns.iter().map(rule).collect::<String>())
}
