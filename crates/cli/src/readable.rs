/// Longest key that is shown whole, in bytes.
const LONGEST: usize = 48;

/// A key for a terminal: printable, and not long.
pub(crate) fn readable(key: &[u8]) -> String {
    let shown = key.iter().take(LONGEST).flat_map(|byte| byte.escape_ascii());
    let text: String = shown.map(char::from).collect();
    if key.len() > LONGEST { format!("{text}\u{2026}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_shown() {
        assert_eq!(readable(b"a/\x1b[2J\n\xff"), "a/\\x1b[2J\\n\\xff");
        assert_eq!(readable(&[b'a'; 60]).chars().count(), LONGEST + 1);
    }
}
