//! The words of a line, read from left to right.

use std::iter::Peekable;
use std::str::SplitWhitespace;

use shardwright_contracts::{CursorInput, OpId, ShardInput};

use super::literal::{Misspelt, cursor, number, pieces, range};

pub(super) type Parsed<T> = Result<T, Misspelt>;

/// The words of a line that are yet to be read.
pub(super) struct Words<'a>(Peekable<SplitWhitespace<'a>>);

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self(line.split_whitespace().peekable())
    }

    pub(super) fn next(&mut self) -> Parsed<&'a str> {
        self.0.next().ok_or_else(|| "the line ends too soon".to_owned())
    }

    /// Fails if a word is left.
    pub(super) fn end(&mut self) -> Parsed<()> {
        self.0.next().map_or(Ok(()), |extra| Err(format!("unexpected word `{extra}`")))
    }

    /// The next word, or `None` at the end of the line.
    pub(super) fn optional(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    /// Reads `word` if it comes next.
    pub(super) fn flag(&mut self, word: &str) -> bool {
        self.0.next_if(|next| *next == word).is_some()
    }

    /// Reads `word` and the value after it, if `word` comes next.
    pub(super) fn after(&mut self, word: &str) -> Option<&'a str> {
        self.0.next_if(|next| *next == word).and_then(|_| self.0.next())
    }

    pub(super) fn expect(&mut self, word: &str) -> Parsed<&'a str> {
        self.after(word).ok_or_else(|| format!("expected `{word}` and a value"))
    }

    /// Reads `name=value` if it comes next.
    pub(super) fn setting(&mut self, name: &str) -> Option<&'a str> {
        let value = self.0.peek()?.strip_prefix(name)?.strip_prefix('=')?;
        self.0.next();
        Some(value)
    }

    pub(super) fn op(&mut self) -> Parsed<OpId> {
        number(self.expect("op")?).map(OpId::from_raw)
    }

    pub(super) fn cursor(&mut self) -> Parsed<CursorInput<Vec<u8>>> {
        cursor(self.expect("at")?)
    }

    /// Reads ranges up to `op`. A range without an id gets its position in the list.
    pub(super) fn ranges(&mut self) -> Parsed<Vec<ShardInput<Vec<u8>>>> {
        let mut all = Vec::new();
        while let Some(word) = self.0.next_if(|next| *next != "op") {
            for text in pieces(word)? {
                all.push(range(&text, all.len() as u64)?);
            }
        }
        Ok(all)
    }
}
