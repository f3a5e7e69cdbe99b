//! The rows at the bottom of a terminal that a live view occupies.

use crate::width::{start_of, width};

/// Lines that were drawn, and are erased before anything else is written.
pub(super) struct Frame {
    lines: Vec<String>,
    is_drawn: bool,
}

impl Frame {
    pub(super) const fn new() -> Self {
        Self { lines: Vec::new(), is_drawn: false }
    }

    /// The bytes that erase the lines. The cursor is at the end of the last line before, and at the
    /// start of the first one after. The terminal may have been resized since the lines were drawn,
    /// and have wrapped them at its new width.
    ///
    /// Rows are erased one by one: some terminals copy a screen that is cleared from its first row
    /// on to their history.
    pub(super) fn erase(&mut self, columns: usize) -> Vec<u8> {
        if !std::mem::take(&mut self.is_drawn) {
            return Vec::new();
        }
        let rows = |line: &String| width(line).div_ceil(columns.max(1)).max(1);
        let above = self.lines.iter().map(rows).sum::<usize>().saturating_sub(1);
        let up = if above == 0 { String::new() } else { format!("\x1b[{above}A") };
        let below = "\x1b[1B\x1b[2K".repeat(above);
        format!("\r{up}\x1b[2K{below}{up}").into_bytes()
    }

    pub(super) fn set(&mut self, lines: Vec<String>) {
        self.lines = lines;
    }

    /// The bytes that draw the lines, each shortened to fewer than the given columns: a full row
    /// would wrap on some terminals.
    pub(super) fn redraw(&mut self, columns: usize) -> Vec<u8> {
        if self.lines.is_empty() {
            return Vec::new();
        }
        self.is_drawn = true;
        for line in &mut self.lines {
            if width(line) >= columns {
                *line = start_of(line, columns.saturating_sub(1));
            }
        }
        self.lines.join("\n").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(lines: &[&str]) -> Frame {
        let mut frame = Frame::new();
        frame.set(lines.iter().map(|&line| line.to_owned()).collect());
        frame
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn nothing_is_erased_that_was_not_drawn() {
        let mut frame = frame(&["one", "two"]);
        assert_eq!(text(frame.erase(80)), "");
        assert_eq!(text(frame.redraw(80)), "one\ntwo");
        assert_eq!(text(frame.erase(80)), "\r\x1b[1A\x1b[2K\x1b[1B\x1b[2K\x1b[1A");
        assert_eq!(text(frame.erase(80)), "");
        frame.set(Vec::new());
        assert_eq!(text(frame.redraw(80)), "");
    }

    #[test]
    fn rows_that_a_narrower_terminal_wrapped_are_erased() {
        let mut frame = frame(&[&"x".repeat(60), "two"]);
        frame.redraw(80);
        // The first line wraps into three rows.
        assert_eq!(text(frame.erase(25)).matches("\x1b[2K").count(), 4);
        assert_eq!(text(frame.redraw(25)).lines().next().map(width), Some(24));
    }
}
