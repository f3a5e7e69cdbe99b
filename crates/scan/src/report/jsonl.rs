//! Findings as JSON.

use serde_json::{Value, json};

use super::{FoundAt, Group, Report};

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
            "places": group.places.iter().map(place).collect::<Vec<_>>(),
            "more_places": group.more,
        })
    }
}

fn place(place: &FoundAt) -> Value {
    let mut value = json!({ "path": String::from_utf8_lossy(&place.path) });
    if let Some(fields) = value.as_object_mut() {
        if str::from_utf8(&place.path).is_err() {
            let hex: String = place.path.iter().map(|byte| format!("{byte:02x}")).collect();
            fields.insert("path_hex".to_owned(), hex.into());
        }
        if let Some(Value::Object(span)) = place.span.and_then(|it| serde_json::to_value(it).ok()) {
            fields.extend(span);
        }
    }
    value
}

/// What a person would write.
pub(super) fn hundredths(number: f32) -> f64 {
    (f64::from(number) * 100.0).round() / 100.0
}
