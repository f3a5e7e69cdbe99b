//! A reproducible tree to scan.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

const TEXT_FILES: usize = 11_000;
const BINARY_FILES: usize = 300;
const LARGE_FILES: usize = 2;
const LARGE_BYTES: usize = 48_000_000;
const BINARY_BYTES: usize = 200_000;
/// The number of different lines in the files.
const LINES: usize = 20_000;
/// One in this many text files contains a secret.
const SECRET_EVERY: usize = 80;

/// Words for generated code. Some are keywords of rules, as in real code.
const WORDS: &str = "value index name buffer error result state item key length size count path \
    file line node list map token user message request response handler context config options \
    parse write read open close start end next first last input output string bytes number field \
    type data source target table column row cache lock thread task queue event timer clock store \
    update insert remove find match check test expect assert return break continue while for if \
    else let mut const static public private struct enum trait impl self crate module import from \
    default true false none some vector slice array pointer reference offset limit range page \
    shard lease cursor fence secret password session header body client server address port host";

/// A generated tree.
pub(super) struct Corpus {
    pub(super) root: PathBuf,
    pub(super) files: usize,
    pub(super) bytes: u64,
    pub(super) text_bytes: u64,
    pub(super) planted: usize,
}

/// Reproducible pseudo-random numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or_default() % bound.max(1)
    }

    fn pick<'t, T>(&mut self, from: &'t [T]) -> Option<&'t T> {
        from.get(self.below(from.len()))
    }

    fn letters(&mut self, count: usize, alphabet: &[u8]) -> String {
        (0..count).filter_map(|_| self.pick(alphabet).copied().map(char::from)).collect()
    }
}

impl Corpus {
    pub(super) fn make(root: &Path) -> Result<Self> {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
        let lines = lines(&mut chance);
        let mut corpus =
            Self { root: root.to_owned(), files: 0, bytes: 0, text_bytes: 0, planted: 0 };
        for number in 0..TEXT_FILES + LARGE_FILES {
            let length = match number {
                0..TEXT_FILES => 1_000 << chance.below(8),
                _ => LARGE_BYTES,
            };
            let secret_at =
                (number % SECRET_EVERY == 0).then(|| chance.below(length.saturating_sub(100)));
            let text = text(&mut chance, &lines, length, secret_at);
            corpus.planted += usize::from(secret_at.is_some());
            corpus.text_bytes += text.len() as u64;
            corpus.write(number, "txt", &text)?;
        }
        let noise = chance.letters(BINARY_BYTES, &(0..=255).collect::<Vec<u8>>());
        for number in 0..BINARY_FILES {
            corpus.write(number, "bin", format!("\0{number}{noise}").as_bytes())?;
        }
        Ok(corpus)
    }

    fn write(&mut self, number: usize, extension: &str, bytes: &[u8]) -> Result<()> {
        let folder = self.root.join(format!("{:02}", number % 97)).join(extension);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{number:05}.{extension}")), bytes)?;
        self.files += 1;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

fn lines(chance: &mut Chance) -> Vec<String> {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let joints = [" ", " ", " ", "_", ".", "(", ")", " = ", ", ", "::", "; ", ": ", " -> ", "[0] "];
    let line = |_| {
        let mut line = "    ".repeat(chance.below(4));
        for _ in 0..2 + chance.below(9) {
            line.push_str(chance.pick(&words).copied().unwrap_or_default());
            line.push_str(chance.pick(&joints).copied().unwrap_or_default());
        }
        line.push('\n');
        line
    };
    (0..LINES).map(line).collect()
}

/// Lines up to a length, with a secret after the line that reaches a position.
fn text(
    chance: &mut Chance,
    lines: &[String],
    length: usize,
    mut secret_at: Option<usize>,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 200);
    while text.len() < length {
        text.extend_from_slice(chance.pick(lines).map_or(b"\n", |line| line.as_bytes()));
        if secret_at.is_some_and(|at| text.len() >= at) {
            let key = chance.letters(16, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
            text.extend_from_slice(format!("id = AK{}{key} ;\n", "IA").as_bytes());
            secret_at = None;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_text_is_reproducible_and_has_one_secret() {
        let make = || {
            let mut chance = Chance(7);
            let lines = lines(&mut chance);
            text(&mut chance, &lines, 5_000, Some(2_000))
        };
        let made = String::from_utf8(make()).unwrap();
        assert_eq!(made.as_bytes(), make());
        assert_eq!(made.matches("id = AK").count(), 1);
        assert!((5_000..5_300).contains(&made.len()));
    }
}
