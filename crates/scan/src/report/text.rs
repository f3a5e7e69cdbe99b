//! For people.

use std::io::{self, Write};

use super::{FoundAt, Report};

/// How many places of one secret people want to read.
const MOST_SHOWN: usize = 20;

pub(super) fn write(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    for group in &report.found {
        let description = report.rules.rule(&group.rule).map_or("", |rule| rule.description());
        writeln!(out, "{}: {description}", plain(group.rule.as_bytes()))?;
        if !group.secret.is_empty() {
            let (secret, entropy) = (plain(group.secret.as_bytes()), group.entropy);
            writeln!(out, "  {secret}  entropy {entropy:.2}  fingerprint {}", group.fingerprint)?;
        }
        for place in group.places.iter().take(MOST_SHOWN) {
            writeln!(out, "  {}", shown(place))?;
        }
        let more = group.places.len().saturating_sub(MOST_SHOWN) as u64 + group.more;
        if more > 0 {
            writeln!(out, "  and in {more} more places")?;
        }
    }
    Ok(())
}

pub(super) fn shown(place: &FoundAt) -> String {
    let path = plain(&place.path);
    match place.span {
        Some(span) => format!("{path}:{}:{}", span.line, span.column),
        None => path,
    }
}

/// Text with nothing in it that a terminal obeys.
fn plain(bytes: &[u8]) -> String {
    let mut plain = String::new();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() {
                plain.extend(letter.escape_default());
            } else {
                plain.push(letter);
            }
        }
        plain.push_str(&chunk.invalid().escape_ascii().to_string());
    }
    plain
}
