//! Divides a shell line into words and what is between them.
//!
//! It knows quotes, comments, `$(…)`, here-documents, and where a program is. All else is text.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use super::super::argument::Lexicon;
use super::super::{TemplateError, shell};
use super::{Piece, WordPart, is_of_item};

/// Most levels of parentheses.
const DEPTH_MAX: usize = 64;
/// Characters that end a word.
const ENDS: &[u8] = b" \t\n;&|<>()";
/// Words before another command.
const RESERVED: [&[u8]; 10] =
    [b"!", b"do", b"elif", b"else", b"if", b"then", b"time", b"until", b"while", b"{"];

/// Why a placeholder is refused.
#[derive(Clone, Copy)]
enum Place {
    Quotes,
    Backquotes,
    Expansion,
    HereDocument,
}

/// What the next word is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The program, or an assignment before it.
    Program,
    Argument,
    /// The target of a redirection.
    Target,
    /// The end of a here-document.
    Delimiter,
}

/// A word that was read.
#[derive(Default)]
struct Word {
    parts: Vec<WordPart>,
    /// Its text without quotes, with placeholders as they are written.
    plain: Vec<u8>,
}

/// The simple command that is being read.
struct Command {
    role: Role,
    /// The role of the word after the target of a redirection.
    then: Role,
    words: Vec<OsString>,
    has_placeholder: bool,
}

impl Command {
    const fn new() -> Self {
        let (role, then) = (Role::Program, Role::Program);
        Self { role, then, words: Vec::new(), has_placeholder: false }
    }
}

pub(super) struct Lexer<'a> {
    rest: &'a [u8],
    lexicon: &'a Lexicon,
    depth: usize,
    is_for_one_item: bool,
    /// Whether a here-document begins after this line.
    has_here_document: bool,
}

impl<'a> Lexer<'a> {
    pub(super) const fn new(line: &'a [u8], lexicon: &'a Lexicon) -> Self {
        let (is_for_one_item, has_here_document) = (false, false);
        Self { rest: line, lexicon, depth: 0, is_for_one_item, has_here_document }
    }

    /// Whether an item is the target of a redirection, or the value of a variable.
    pub(super) const fn is_for_one_item(&self) -> bool {
        self.is_for_one_item
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at_checked(count).unwrap_or((self.rest, &[]));
        self.rest = rest;
        taken
    }

    fn misplaced(&self, placeholder: String, place: Place) -> TemplateError {
        let (place, remedy) = match place {
            Place::Quotes => (
                "quotes",
                format!(
                    "leave the quotes out, since it is always one word: write \
                     \"a \"{placeholder}\" b\" instead of \"a {placeholder} b\""
                ),
            ),
            Place::Backquotes => {
                ("backquotes", format!("write $(… {placeholder} …) instead of `… {placeholder} …`"))
            }
            Place::Expansion => (
                "an expansion",
                format!("assign it to a variable first: item={placeholder}; … \"$item\""),
            ),
            Place::HereDocument => (
                "or after a here-document",
                format!("assign it to a variable before: item={placeholder}; cat <<END … $item"),
            ),
        };
        TemplateError::MisplacedPlaceholder { placeholder, place, remedy }
    }

    /// Refuses a placeholder at the beginning of the rest.
    fn refuse(&self, place: Place) -> Result<(), TemplateError> {
        let Some((_, length)) = self.lexicon.at(self.rest) else { return Ok(()) };
        let placeholder = self.rest.get(..length).unwrap_or_default();
        Err(self.misplaced(String::from_utf8_lossy(placeholder).into_owned(), place))
    }

    /// Reads commands up to the parenthesis that closes them, which is left.
    pub(super) fn commands(&mut self) -> Result<Vec<Piece>, TemplateError> {
        let (mut pieces, mut command) = (Vec::new(), Command::new());
        while let Some(first) = self.rest.first() {
            if self.lexicon.at(self.rest).is_some() || !ENDS.contains(first) && *first != b'#' {
                let word = self.word()?;
                self.place(&mut command, &word)?;
                pieces.push(Piece::Word(word.parts));
                continue;
            }
            let text = match first {
                b' ' | b'\t' => self.take(1),
                b'#' => {
                    let end = self.rest.iter().position(|byte| *byte == b'\n');
                    self.take(end.unwrap_or(self.rest.len()))
                }
                b'<' | b'>' => self.redirection(&mut command),
                b')' if self.depth > 0 => break,
                b'(' => {
                    self.end(&std::mem::replace(&mut command, Command::new()))?;
                    pieces.push(Piece::Text(self.take(1).to_vec()));
                    pieces.extend(self.nested()?);
                    continue;
                }
                _ => {
                    self.end(&std::mem::replace(&mut command, Command::new()))?;
                    self.take(1)
                }
            };
            pieces.push(Piece::Text(text.to_vec()));
            if text == b"\n" && self.has_here_document {
                if let Some(placeholder) = self.lexicon.first_in(self.rest) {
                    return Err(self.misplaced(placeholder, Place::HereDocument));
                }
                pieces.push(Piece::Text(self.take(self.rest.len()).to_vec()));
            }
        }
        self.end(&command)?;
        Ok(pieces)
    }

    /// Reads commands in parentheses, after the first one.
    fn nested(&mut self) -> Result<Vec<Piece>, TemplateError> {
        if self.depth == DEPTH_MAX {
            return Err(TemplateError::TooDeep);
        }
        self.depth += 1;
        let mut pieces = self.commands()?;
        self.depth -= 1;
        // Without a parenthesis, the shell reports it.
        pieces.push(Piece::Text(self.take(1).to_vec()));
        Ok(pieces)
    }

    fn redirection(&mut self, command: &mut Command) -> &'a [u8] {
        let angles = self.rest.iter().take_while(|byte| b"<>".contains(byte)).count();
        let (operator, after) = self.rest.split_at_checked(angles).unwrap_or_default();
        let is_here_document = operator == b"<<";
        self.has_here_document |= is_here_document;
        if !matches!(command.role, Role::Target | Role::Delimiter) {
            command.then = command.role;
        }
        command.role = if is_here_document { Role::Delimiter } else { Role::Target };
        let more = after.first().is_some_and(|byte| b"&|-".contains(byte));
        self.take(angles + usize::from(more))
    }

    /// Checks a word by its role in its command.
    fn place(&mut self, command: &mut Command, word: &Word) -> Result<(), TemplateError> {
        let is_direct = |part: &WordPart| matches!(part, WordPart::Placeholder(_));
        let is_placeholder = word.parts.iter().any(is_direct);
        let placeholder = || self.lexicon.first_in(&word.plain).unwrap_or_default();
        let is_assignment = is_assignment(&word.parts);
        let is_number = word.plain.iter().all(u8::is_ascii_digit);
        match command.role {
            // The descriptor of a redirection.
            _ if is_number && self.rest.first().is_some_and(|byte| b"<>".contains(byte)) => {}
            Role::Delimiter if is_placeholder => {
                return Err(self.misplaced(placeholder(), Place::HereDocument));
            }
            Role::Target | Role::Delimiter => {
                self.is_for_one_item |= is_of_item(&word.parts);
                command.role = command.then;
            }
            Role::Program if is_assignment => self.is_for_one_item |= is_of_item(&word.parts),
            Role::Program if is_placeholder => {
                return Err(TemplateError::PlaceholderInProgram { placeholder: placeholder() });
            }
            Role::Program if RESERVED.contains(&word.plain.as_slice()) => {}
            Role::Program | Role::Argument => {
                command.role = Role::Argument;
                command.has_placeholder |= is_placeholder;
                command.words.push(OsString::from_vec(word.plain.clone()));
            }
        }
        Ok(())
    }

    /// Refuses a command that executes the text of an item.
    fn end(&self, command: &Command) -> Result<(), TemplateError> {
        let Command { words, has_placeholder: true, .. } = command else { return Ok(()) };
        let is_code = words.first().is_some_and(|first| first == "eval")
            || shell::is_in_script(words, self.lexicon);
        if !is_code {
            return Ok(());
        }
        let mut found = words.iter().filter_map(|word| self.lexicon.first_in(word.as_bytes()));
        let placeholder = found.next().unwrap_or_else(|| self.lexicon.item());
        Err(TemplateError::PlaceholderInScript { placeholder })
    }

    fn word(&mut self) -> Result<Word, TemplateError> {
        let mut word = Word::default();
        while let Some(first) = self.rest.first() {
            if let Some((placeholder, length)) = self.lexicon.at(self.rest) {
                word.plain.extend_from_slice(self.take(length));
                word.parts.push(WordPart::Placeholder(placeholder));
                continue;
            }
            match first {
                _ if ENDS.contains(first) => break,
                b'\'' => self.single_quotes(&mut word)?,
                b'"' => self.double_quotes(&mut word)?,
                _ => self.character(&mut word)?,
            }
        }
        Ok(word)
    }

    /// Reads what has the same meaning inside and outside of double quotes.
    fn character(&mut self, word: &mut Word) -> Result<(), TemplateError> {
        match self.rest {
            [b'\\', ..] => {
                let escaped = self.take(2);
                word.add(escaped, escaped.get(1..).unwrap_or_default());
            }
            [b'`', ..] => {
                let text = self.until(b"`", b"`", Place::Backquotes)?;
                word.add(text, b"");
            }
            [b'$', b'(', b'(', ..] => {
                let text = self.until(b"((", b"))", Place::Expansion)?;
                word.add(text, b"");
            }
            [b'$', b'(', ..] => {
                word.add(self.take(2), b"");
                word.parts.push(WordPart::Commands(self.nested()?));
            }
            [b'$', b'{', ..] => {
                let text = self.until(b"{", b"}", Place::Expansion)?;
                word.add(text, b"");
            }
            [b'$', ..] => {
                let dollar = self.take(1);
                self.refuse(Place::Expansion)?;
                word.add(dollar, dollar);
            }
            _ => {
                let text = self.take(1);
                word.add(text, text);
            }
        }
        Ok(())
    }

    /// Reads up to an end. What opens and closes between is counted.
    fn until(
        &mut self,
        open: &[u8],
        close: &[u8],
        place: Place,
    ) -> Result<&'a [u8], TemplateError> {
        let text = self.rest;
        let begin = text.iter().position(|byte| open.contains(byte)).unwrap_or_default();
        self.take(begin + open.len());
        let mut levels = 1_usize;
        while levels > 0 && !self.rest.is_empty() {
            self.refuse(place)?;
            let length = if self.rest.starts_with(b"\\") {
                2
            } else if self.rest.starts_with(close) {
                levels -= 1;
                close.len()
            } else {
                levels += usize::from(self.rest.starts_with(open));
                1
            };
            self.take(length);
        }
        Ok(text.get(..text.len() - self.rest.len()).unwrap_or_default())
    }

    fn single_quotes(&mut self, word: &mut Word) -> Result<(), TemplateError> {
        let quoted = self.rest.iter().skip(1).position(|byte| *byte == b'\'');
        let text = self.take(quoted.map_or(self.rest.len(), |length| length + 2));
        let inside = text.get(1..).unwrap_or_default();
        let inside = inside.strip_suffix(b"'").unwrap_or(inside);
        if let Some(placeholder) = self.lexicon.first_in(inside) {
            return Err(self.misplaced(placeholder, Place::Quotes));
        }
        word.add(text, inside);
        Ok(())
    }

    fn double_quotes(&mut self, word: &mut Word) -> Result<(), TemplateError> {
        word.add(self.take(1), b"");
        loop {
            self.refuse(Place::Quotes)?;
            match self.rest.first() {
                None => return Ok(()),
                Some(b'"') => {
                    word.add(self.take(1), b"");
                    return Ok(());
                }
                Some(_) => self.character(word)?,
            }
        }
    }
}

impl Word {
    fn add(&mut self, text: &[u8], plain: &[u8]) {
        match self.parts.last_mut() {
            Some(WordPart::Text(last)) => last.extend_from_slice(text),
            _ => self.parts.push(WordPart::Text(text.to_vec())),
        }
        self.plain.extend_from_slice(plain);
    }
}

/// Whether a word begins with a name and an equals sign.
fn is_assignment(parts: &[WordPart]) -> bool {
    let Some(WordPart::Text(text)) = parts.first() else { return false };
    let Some(at) = text.iter().position(|byte| *byte == b'=') else { return false };
    let name = text.get(..at).unwrap_or_default();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    name.first().is_some_and(|first| !first.is_ascii_digit()) && name.iter().all(is_name)
}
