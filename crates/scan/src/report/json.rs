//! Findings as JSON: one object per line, or SARIF 2.1.0, the OASIS format for analysis tools.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{FoundAt, Group, Report, uri};
use crate::rules::Rule;

/// The SARIF base id of the source's URL.
const BASE: &str = "SOURCE";

/// The whole document. Files are named relative to `base`.
pub(super) fn document(report: &Report<'_>, base: &str) -> Value {
    let rules = report.rules.rules();
    let index: BTreeMap<&str, usize> = rules.iter().map(Rule::id).zip(0..).collect();
    let results: Vec<Value> =
        report.found.iter().map(|group| result(report, group, &index)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "shardwright",
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "rules": rules.iter().map(descriptor).collect::<Vec<_>>(),
                },
            },
            "invocations": [{
                "executionSuccessful": true,
                "toolExecutionNotifications": notifications(report),
            }],
            "originalUriBaseIds": { BASE: { "uri": base } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn descriptor(rule: &Rule) -> Value {
    json!({
        "id": rule.id(),
        "shortDescription": { "text": rule.description() },
        "defaultConfiguration": { "level": "error" },
        "properties": { "tags": rule.tags() },
    })
}

fn result(report: &Report<'_>, group: &Group, index: &BTreeMap<&str, usize>) -> Value {
    let description = report.rules.rule(&group.rule).map_or("", Rule::description);
    // One result with all locations: a leaked secret is fixed when it is gone from all of them.
    let mut result = json!({
        "ruleId": group.rule,
        "level": "error",
        "message": { "text": description },
        "locations": group.locations.iter().map(location).collect::<Vec<_>>(),
        "occurrenceCount": (group.locations.len() as u64).saturating_add(group.more),
        "partialFingerprints": { "secretDigest/v1": group.fingerprint },
        "properties": { "secret": group.secret, "entropy": hundredths(group.entropy) },
    });
    if let (Some(fields), Some(at)) = (result.as_object_mut(), index.get(group.rule.as_str())) {
        fields.insert("ruleIndex".to_owned(), (*at).into());
    }
    result
}

fn artifact(path: &[u8]) -> Value {
    json!({ "uri": uri(path), "uriBaseId": BASE })
}

fn location(found: &FoundAt) -> Value {
    let mut physical = json!({ "artifactLocation": artifact(&found.path) });
    if let (Some(fields), Some(span)) = (physical.as_object_mut(), found.span) {
        let region = json!({
            "startLine": span.line,
            "startColumn": span.column,
            "endLine": span.end_line,
            "endColumn": span.end_column,
            "byteOffset": span.offset,
            "byteLength": span.length,
        });
        fields.insert("region".to_owned(), region);
    }
    json!({ "physicalLocation": physical })
}

/// What was not scanned.
fn notifications(report: &Report<'_>) -> Vec<Value> {
    let unread = report.unread.iter().map(|path| {
        json!({
            "level": "warning",
            "message": { "text": "the file could not be read" },
            "locations": [{ "physicalLocation": { "artifactLocation": artifact(path) } }],
        })
    });
    let mut notifications: Vec<Value> = unread.collect();
    let totals = report.totals();
    let named = report.unread.len() as u64;
    let more = totals.unreadable.saturating_sub(named);
    for (count, what) in [
        (more, "more files could not be read"),
        (totals.omitted, "more findings are in files that have too many"),
    ] {
        if count > 0 {
            let text = format!("{count} {what}");
            notifications.push(json!({ "level": "warning", "message": { "text": text } }));
        }
    }
    notifications
}

impl Report<'_> {
    /// A finding as a JSON object.
    #[must_use]
    pub fn line(&self, group: &Group) -> Value {
        let rule = self.rules.rule(&group.rule);
        json!({
            "rule": group.rule,
            "description": rule.map(|rule| rule.description()),
            "tags": rule.map_or(&[][..], |rule| rule.tags()),
            "fingerprint": group.fingerprint,
            "secret": group.secret,
            "entropy": hundredths(group.entropy),
            "places": group.locations.iter().map(found_at).collect::<Vec<_>>(),
            "more_places": group.more,
        })
    }
}

fn found_at(found: &FoundAt) -> Value {
    let mut value = json!({ "path": String::from_utf8_lossy(&found.path) });
    if let Some(fields) = value.as_object_mut() {
        if str::from_utf8(&found.path).is_err() {
            let hex: String = found.path.iter().map(|byte| format!("{byte:02x}")).collect();
            fields.insert("path_hex".to_owned(), hex.into());
        }
        if let Some(Value::Object(span)) = found.span.and_then(|it| serde_json::to_value(it).ok()) {
            fields.extend(span);
        }
    }
    value
}

/// The number rounded to two decimals.
pub(super) fn hundredths(number: f32) -> f64 {
    (f64::from(number) * 100.0).round() / 100.0
}
