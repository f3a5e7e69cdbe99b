//! Formatting of keys, texts, sizes and times for a terminal.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

/// Longest key that is shown in full, in bytes.
const LONGEST: usize = 48;

/// A key, escaped and shortened.
pub fn readable(key: &[u8]) -> String {
    let shown = key.iter().take(LONGEST).flat_map(|byte| byte.escape_ascii());
    let text: String = shown.map(char::from).collect();
    if key.len() > LONGEST { format!("{text}\u{2026}") } else { text }
}

/// An untrusted command as a shell reads it, with control characters except newlines escaped.
pub(crate) fn command_line(command: &[OsString]) -> String {
    let parts: Vec<String> = command.iter().map(|part| quoted(part)).collect();
    parts.join(" ")
}

/// An argument as a shell reads it.
pub(crate) fn quoted(argument: &OsStr) -> String {
    let text = argument.to_string_lossy();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+{}".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.into_owned();
    }
    let quoted = format!("'{}'", text.replace('\'', r"'\''"));
    let lines: Vec<_> = quoted.split('\n').map(printable).collect();
    lines.join("\n")
}

/// An untrusted text on one line, with control characters escaped.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match u8::try_from(letter) {
            _ if !is_control(letter) => shown.push(letter),
            Ok(byte) => shown.extend(byte.escape_ascii().map(char::from)),
            Err(_) => shown.extend(letter.escape_unicode()),
        }
    }
    Cow::Owned(shown)
}

/// Whether a character controls a terminal: the cursor, colours, or the direction of text. A tab is
/// harmless.
fn is_control(letter: char) -> bool {
    letter != '\t'
        && (letter.is_control()
            || matches!(
                letter,
                '\u{61c}'
                    | '\u{200e}'
                    | '\u{200f}'
                    | '\u{2028}'..='\u{202e}'
                    | '\u{2066}'..='\u{2069}'
            ))
}

/// A size with three digits.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn readable_bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        if size < 999.5 {
            let digits = if unit == "B" || size >= 99.95 { 0 } else { 1 };
            return format!("{size:.digits$} {unit}");
        }
        size /= 1_000.0;
    }
    format!("{size:.0} PB")
}

/// A time in its two largest units.
pub fn readable_time(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {} s", seconds % 60),
        (..48, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped_and_shortened() {
        assert_eq!(readable(b"a/\x1b[2J\n\xff"), "a/\\x1b[2J\\n\\xff");
        assert_eq!(readable(&[b'a'; 60]).chars().count(), LONGEST + 1);
    }

    #[test]
    fn a_command_is_shown_as_a_shell_reads_it() {
        for (argument, shown) in [
            ("{}", "{}"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$x", "'$x'"),
            ("a\nb\x1b", "'a\nb\\x1b'"),
        ] {
            assert_eq!(command_line(&["run".into(), argument.into()]), format!("run {shown}"));
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("caf\u{e9}\tau lait"), "caf\u{e9}\tau lait");
        assert_eq!(printable("x\x1b[31mred\ny\x7f"), "x\\x1b[31mred\\ny\\x7f");
        assert_eq!(printable("\u{9b}2J\u{202e}"), "\\x9b2J\\u{202e}");
    }

    #[test]
    fn sizes_and_times_are_short() {
        for (bytes, shown) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (99_960, "100 kB"),
            (999_600, "1.0 MB"),
            (12_345_678, "12.3 MB"),
            (u64::MAX, "18447 PB"),
        ] {
            assert_eq!(readable_bytes(bytes), shown);
        }
        for (seconds, shown) in
            [(59, "59 s"), (61, "1 min 1 s"), (7_325, "2 h 2 min"), (200_000, "2 d 7 h")]
        {
            assert_eq!(readable_time(Duration::from_secs(seconds)), shown);
        }
    }
}
