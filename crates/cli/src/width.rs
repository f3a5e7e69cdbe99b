//! The width of text on a terminal, by Unicode, and shortening to a width.

use unicode_width::UnicodeWidthChar as _;

const ELLIPSIS: char = '\u{2026}';
/// Characters without a width of their own that are kept per column. A name may have thousands.
const MARKS_PER_COLUMN: usize = 4;

/// The columns of a character, at most. An emoji selector may widen the character before it.
fn columns(letter: char) -> usize {
    if letter == '\u{fe0f}' { 1 } else { letter.width().unwrap_or(0) }
}

/// The columns of a text without its escape sequences for colours.
pub(crate) fn width(text: &str) -> usize {
    plain(text).map(columns).sum()
}

/// The characters of a text that are not part of a colour.
fn plain(text: &str) -> impl Iterator<Item = char> {
    let mut is_colour = false;
    text.chars().filter(move |letter| {
        let was_colour = is_colour;
        is_colour = if was_colour { *letter != 'm' } else { *letter == '\x1b' };
        !was_colour && !is_colour
    })
}

/// The start of a text that fits into some columns, with an ellipsis if it is shortened. Colours
/// are dropped then.
pub(crate) fn start_of(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut kept = take(plain(text), most.saturating_sub(1));
    if most > 0 {
        kept.push(ELLIPSIS);
    }
    kept
}

/// A text that fits into some columns. If it is too long, its middle is left out: the start of a
/// path names the folder, and its end the file.
pub(crate) fn fitted(text: &str, most: usize) -> String {
    let is_short = text.chars().count() <= most.saturating_mul(MARKS_PER_COLUMN);
    if is_short && width(text) <= most {
        return text.to_owned();
    }
    let Some(room) = most.checked_sub(1) else { return String::new() };
    let mut kept = take(text.chars(), room / 3);
    let end = take(text.chars().rev(), room - width(&kept));
    kept.push(ELLIPSIS);
    // The end must not begin with a mark of a character that is left out.
    let end: String = end.chars().rev().collect();
    kept.push_str(end.trim_start_matches(|letter| columns(letter) == 0));
    kept
}

fn take(letters: impl Iterator<Item = char>, most: usize) -> String {
    let (mut kept, mut used, mut marks) = (String::new(), 0, 0);
    for letter in letters {
        match columns(letter) {
            0 if marks >= most.saturating_mul(MARKS_PER_COLUMN) => {}
            0 => {
                marks += 1;
                kept.push(letter);
            }
            columns if used + columns > most => break,
            columns => {
                used += columns;
                kept.push(letter);
            }
        }
    }
    kept
}

/// A number with commas between its thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: [&str; 6] = [
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd}.txt",
        "\u{65e5}\u{672c}\u{8a9e}\u{306e}\u{30d5}\u{30a1}\u{30a4}\u{30eb}.jpg",
        "e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}",
        "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{2764}\u{fe0f}\u{2764}\u{fe0f}",
        "a/very/long/path/that/does/not/fit/IMG_0148.jpg",
        "",
    ];

    #[test]
    fn wide_and_combining_characters_have_their_widths() {
        assert_eq!(HOSTILE.map(width), [8, 20, 8, 10, 47, 0]);
        assert_eq!(width("\x1b[32mgreen\x1b[0m"), 5);
    }

    #[test]
    fn fitted_text_never_exceeds_its_columns() {
        for text in HOSTILE {
            for most in 0..60 {
                let (both, start) = (fitted(text, most), start_of(text, most));
                assert!(width(&both) <= most && width(&start) <= most, "{text} {most} {both}");
                assert_eq!(both == text, width(text) <= most, "{text} {most}");
            }
        }
        assert_eq!(fitted(HOSTILE[4], 24), "a/very/\u{2026}fit/IMG_0148.jpg");
        assert_eq!(start_of("\x1b[32mgreen\x1b[0m", 3), "gr\u{2026}");
    }

    #[test]
    fn thousands_of_marks_on_one_letter_are_cut() {
        let tower = format!("a{}", "\u{301}".repeat(5_000));
        assert!(fitted(&tower, 20).chars().count() < 200);
    }

    #[test]
    fn thousands_are_separated() {
        let shown = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
