//! Formatting of keys, texts, sizes and times for a terminal.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

/// Longest key that is shown in full, in characters.
const LONGEST: usize = 160;

/// A key on one line, shortened in its middle if it is long.
pub fn readable(key: &[u8]) -> String {
    let text = printable_bytes(key);
    let length = text.chars().count();
    if length <= LONGEST {
        return text;
    }
    let (start, end) = (LONGEST / 3, LONGEST - LONGEST / 3 - 1);
    let start: String = text.chars().take(start).collect();
    let end: String = text.chars().skip(length - end).collect();
    format!("{start}\u{2026}{end}")
}

/// Untrusted bytes on one line: text stays as it is, control characters and other bytes are
/// escaped.
pub fn printable_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(&printable(chunk.valid()).replace('\t', "\\t"));
        let others = chunk.invalid().iter().flat_map(|byte| byte.escape_ascii());
        text.extend(others.map(char::from));
    }
    text
}

/// A failure on one line: how the program ended, and the last line that it wrote.
pub fn failure_line(detail: &str) -> String {
    let detail = detail.trim_end();
    let Some((first, rest)) = detail.split_once('\n') else { return printable(detail).into() };
    let last = rest.lines().next_back().unwrap_or_default().trim_start();
    // The name of the item and the exit status are on the first line, before the output.
    let status = ["exit code ", "killed by signal "].iter().find_map(|status| {
        let at = first.find(status)? + status.len();
        let digits = first.get(at..)?.bytes().take_while(u8::is_ascii_digit).count();
        first.get(..at + digits)
    });
    let line = status.map_or_else(|| first.to_owned(), |status| format!("{status}: {last}"));
    printable(&line).into()
}

/// An untrusted command as a shell reads it, with control characters except newlines escaped.
pub(crate) fn command_line(command: &[OsString]) -> String {
    let parts: Vec<String> = command.iter().map(|part| quoted(part)).collect();
    parts.join(" ")
}

/// A command on one line, exactly as bash, zsh and ksh read it. Bytes that a terminal must not get
/// are escaped, as in `$'a\\nb'`.
pub fn shell_line(command: &[OsString]) -> String {
    let word = |part: &OsString| match part.to_str() {
        Some(text) if !text.chars().any(|letter| letter == '\t' || is_control(letter)) => {
            quoted(part)
        }
        _ => {
            let escaped = part.as_encoded_bytes().iter().flat_map(|byte| byte.escape_ascii());
            format!("$'{}'", escaped.map(char::from).collect::<String>())
        }
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
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
        let hostile = b"caf\xc3\xa9/\x1b[2J\n\t\xff\xe2\x80\xae";
        assert_eq!(readable(hostile), "caf\u{e9}/\\x1b[2J\\n\\t\\xff\\u{202e}");
        let long = format!("folder/{}.jpg", "x".repeat(600));
        let shown = readable(long.as_bytes());
        assert_eq!(shown.chars().count(), LONGEST);
        assert!(shown.starts_with("folder/") && shown.ends_with(".jpg"), "{shown}");
    }

    #[test]
    fn failure_is_shown_by_its_status_and_last_line() {
        for (detail, shown) in [
            ("exit code 1", "exit code 1"),
            ("a.jpg: exit code 9: no such table\n", "a.jpg: exit code 9: no such table"),
            ("a: exit code 1: reading\n  premature end\n", "a: exit code 1: premature end"),
            ("killed by signal 9: x\ny\u{1b}[2J", "killed by signal 9: y\\x1b[2J"),
            ("it cannot be read: no\nreason", "it cannot be read: no"),
            ("", ""),
        ] {
            assert_eq!(failure_line(detail), shown, "{detail}");
        }
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
    fn a_shell_reads_a_line_exactly_as_it_was() {
        use std::os::unix::ffi::OsStringExt as _;
        let words: Vec<OsString> = [
            &b"a b"[..],
            b"it's",
            b"$x",
            b"",
            b"n\nl",
            b"t\t\"\\'",
            b"\xff\xfe",
            "\u{e9}\u{202e}".as_bytes(),
        ]
        .map(|word| OsString::from_vec(word.to_vec()))
        .to_vec();
        let line = shell_line(&words);
        assert!(
            !line.contains('\n') && line.starts_with(r"'a b' 'it'\''s' '$x' '' $'n\nl' "),
            "{line}"
        );
        let script = format!("printf '%s\\0' {line}");
        let printed = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        let read: Vec<&[u8]> = printed.stdout.split(|byte| *byte == 0).collect();
        let expected: Vec<&[u8]> = words.iter().map(|word| word.as_encoded_bytes()).collect();
        assert_eq!(read[..words.len()], expected);
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
