//! Durations on the command line.

use std::time::Duration;

/// Milliseconds of each unit. A number without a unit is in seconds.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
/// The longest duration: more than a hundred years.
const MAX_MS: u64 = 1 << 42;

/// Parses a duration like `500ms`, `30s`, `5m`, `2h` or `1.5h`; a plain number is in seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let unit = if unit.is_empty() { "s" } else { unit };
    let found = UNITS.iter().find(|(name, _)| *name == unit);
    let duration = found.and_then(|(_, unit_ms)| milliseconds(digits, *unit_ms));
    duration.map(Duration::from_millis).ok_or_else(|| {
        format!("`{text}` is not a duration like `500ms`, `30s`, `5m`, `2h`, or `30` for seconds")
    })
}

/// Parses a duration that is not zero.
pub(crate) fn parse_positive_duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.is_zero() { Err("it must be longer than zero".to_owned()) } else { Ok(duration) }
}

/// A decimal number of units, in whole milliseconds.
fn milliseconds(number: &str, unit_ms: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    let part = fraction.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    // Rounded up, so that nothing becomes zero.
    let part = part.div_ceil(scale);
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    Some(whole.checked_add(part)?).filter(|sum| *sum <= MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_or_are_seconds() {
        for (text, expected_ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("30", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("0", 0),
            ("0.25", 250),
            ("1.5h", 5_400_000),
            ("0.0001s", 1),
            ("1000000h", 3_600_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(expected_ms)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_rejected_with_examples() {
        for text in [
            "",
            "s",
            "ms",
            "5x",
            "5 s",
            "-5s",
            "+5",
            "5S",
            "1e3",
            "1.s",
            ".5",
            "5m30s",
            "inf",
            "NaN",
            "1.0000000000",
            "99999999999h",
            "18446744073709551616",
            "\u{661}s",
            "5\u{b5}s",
        ] {
            let rejection = parse_duration(text).unwrap_err();
            assert!(rejection.contains("`500ms`, `30s`, `5m`, `2h`"), "{text}: {rejection}");
        }
        assert!(parse_positive_duration("0ms").is_err() && parse_positive_duration("1ms").is_ok());
    }
}
