//! Lines and columns.

use memchr::{memchr_iter, memrchr};

/// A place in a file: its line, and the characters before it in that line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    line: u64,
    column: u64,
}

impl Position {
    /// The place behind some bytes.
    pub(super) fn after(self, bytes: &[u8]) -> Self {
        match memrchr(b'\n', bytes) {
            Some(last) => Self {
                line: self.line + memchr_iter(b'\n', bytes).count() as u64,
                column: characters(bytes.get(last + 1..).unwrap_or_default()),
            },
            None => Self { line: self.line, column: self.column + characters(bytes) },
        }
    }

    /// As people count it.
    pub(super) const fn shown(self) -> (u64, u64) {
        (self.line + 1, self.column + 1)
    }
}

/// Tells places in a window, quickest when they come in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Locator<'w> {
    bytes: &'w [u8],
    start: Position,
    /// A place that is known.
    known: (usize, Position),
}

impl<'w> Locator<'w> {
    /// For a window that begins at a place.
    pub(super) const fn new(bytes: &'w [u8], start: Position) -> Self {
        Self { bytes, start, known: (0, start) }
    }

    /// The place of a byte.
    pub(super) fn locate(&mut self, at: usize) -> Position {
        if at < self.known.0 {
            self.known = (0, self.start);
        }
        let (from, position) = self.known;
        let position = position.after(self.bytes.get(from..at).unwrap_or_default());
        self.known = (at, position);
        position
    }
}

/// How many characters begin in UTF-8 text.
fn characters(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_the_same_in_any_order() {
        let text = "one\ntw\u{f6}\n\nthree".as_bytes();
        let mut locator = Locator::new(text, Position::default());
        for at in [0, 3, 4, 8, 2, 2, 12, 5, 14] {
            assert_eq!(locator.locate(at), Position::default().after(&text[..at]), "{at}");
        }
    }

    #[test]
    fn lines_and_characters_are_counted_from_one() {
        let shown = |bytes: &[u8]| Position::default().after(bytes).shown();
        assert_eq!(shown(b""), (1, 1));
        assert_eq!(shown(b"ab"), (1, 3));
        assert_eq!(shown("\u{e9}\u{20ac}x".as_bytes()), (1, 4));
        assert_eq!(shown(b"a\nb\nc"), (3, 2));
        let (first, rest) = (b"one\ntw".as_slice(), b"o\nthree".as_slice());
        assert_eq!(Position::default().after(first).after(rest).shown(), (3, 6));
    }
}
