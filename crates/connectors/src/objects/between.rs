//! Points between two keys, likely to have keys around them.

use super::prefix::valid_start;

/// Characters of a point that are computed.
const DIGITS: usize = 7;
/// The printable ASCII characters. Nearly all object names consist of them.
const FIRST: u8 = b' ';
const LAST: u8 = b'~';
const BASE: f64 = (LAST - FIRST + 1) as f64;

/// A text at about `fraction` between two keys, which are read as numbers with printable digits. An
/// empty `high` is no bound. None if there is no text in between.
pub(super) fn between(low: &[u8], high: &[u8], fraction: f64) -> Option<String> {
    let shared = low.iter().zip(high).take_while(|(one, other)| one == other).count();
    let shared = valid_start(low.get(..shared)?);
    let from = number(low.get(shared.len()..)?, 0.0);
    let to = if high.is_empty() {
        BASE.powi(DIGITS as i32)
    } else {
        number(high.get(shared.len()..)?, 0.0)
    };
    let text = shared.to_owned() + &digits(from + (to - from).max(0.0) * fraction);
    let inside = text.as_bytes() > low && (high.is_empty() || text.as_bytes() < high);
    inside.then_some(text)
}

/// The first characters as a number. A character that is not printable counts as the nearest one.
fn number(bytes: &[u8], missing: f64) -> f64 {
    (0..DIGITS).fold(0.0, |sum, at| {
        let digit = bytes.get(at).map_or(missing, |byte| {
            // Above all printable characters, so that a name can be below an end such as `0xff`.
            if *byte > LAST { BASE } else { f64::from(byte.saturating_sub(FIRST)) }
        });
        sum * BASE + digit
    })
}

fn digits(number: f64) -> String {
    let mut rest = number.clamp(0.0, BASE.powi(DIGITS as i32) - 1.0) as u64;
    let base = BASE as u64;
    let mut digits = [FIRST; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = FIRST + u8::try_from(rest % base).unwrap_or_default();
        rest /= base;
    }
    // Trailing blanks carry no information.
    String::from_utf8_lossy(&digits).trim_end_matches(char::from(FIRST)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_between_its_bounds_and_follows_the_fraction() {
        let low = b"data/2024/aaaa";
        let high = b"data/2024/zzzz";
        let mut last = low.to_vec();
        for tenth in 1..10 {
            let point = between(low, high, f64::from(tenth) / 10.0).unwrap();
            assert!(point.as_bytes() > last.as_slice() && point.as_bytes() < high.as_slice());
            assert!(point.starts_with("data/2024/"));
            last = point.into_bytes();
        }
        let middle = between(b"a", b"y", 0.5).unwrap();
        assert!(middle.starts_with('m'), "{middle}");
    }

    #[test]
    fn any_bytes_may_be_bounds() {
        assert!(between(b"\x01", b"\xff", 0.5).unwrap().as_str() > "A");
        assert!(between(b"abc", b"", 0.5).unwrap().as_str() > "b");
        assert_eq!(between(b"a", b"a", 0.5), None);
        assert_eq!(between(b"b", b"a", 0.5), None);
        assert_eq!(between(b"a", b"a\0", 0.5), None);
        let accented = between("é".as_bytes(), "ê".as_bytes(), 0.5);
        assert!(accented.is_none_or(|point| point.as_str() > "é" && point.as_str() < "ê"));
    }
}
