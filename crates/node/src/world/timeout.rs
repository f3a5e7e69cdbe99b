//! The timeout of a request in gRPC's format.

use std::time::Duration;

use shardwright_api::limits::MAX_TIMEOUT;
use tonic::metadata::MetadataMap;

/// The default timeout of a request.
pub(super) const DEFAULT: Duration = Duration::from_secs(30);

/// The time for the way back of an answer. A later answer would miss the caller's deadline.
const WAY_BACK: Duration = Duration::from_millis(20);

/// The time to answer a request.
pub(super) fn of(metadata: &MetadataMap) -> Duration {
    let written = metadata.get("grpc-timeout").and_then(|value| value.to_str().ok());
    match written.and_then(parse) {
        Some(timeout) => less_way_back(timeout.min(MAX_TIMEOUT)),
        None => DEFAULT,
    }
}

fn less_way_back(timeout: Duration) -> Duration {
    timeout.saturating_sub(WAY_BACK.min(timeout / 20))
}

/// At most eight digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|one| one.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_parsed_and_other_text_is_refused() {
        assert_eq!(parse("2H"), Some(Duration::from_secs(7_200)));
        assert_eq!(parse("3M"), Some(Duration::from_secs(180)));
        assert_eq!(parse("10S"), Some(Duration::from_secs(10)));
        assert_eq!(parse("1500m"), Some(Duration::from_millis(1_500)));
        assert_eq!(parse("99999999u"), Some(Duration::from_micros(99_999_999)));
        assert_eq!(parse("7n"), Some(Duration::from_nanos(7)));
        for nonsense in ["", "S", "1", "1s", "-1S", "+1S", "123456789S", "1é", "é"] {
            assert_eq!(parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_timeout_leaves_time_for_the_way_back() {
        let with = |text: &'static str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            of(&metadata)
        };
        assert_eq!(with("2S"), Duration::from_millis(1_980));
        assert_eq!(with("100m"), Duration::from_millis(95));
        assert_eq!(with("99999999H"), MAX_TIMEOUT.saturating_sub(WAY_BACK));
        assert_eq!(of(&MetadataMap::new()), DEFAULT);
    }
}
