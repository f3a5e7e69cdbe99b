//! A line for `/bin/sh` with placeholders.
//!
//! No text of an item becomes part of the script. The items are arguments of the shell, and each
//! placeholder is a variable in double quotes:
//!
//! ```text
//! convert {} -resize 50% out/{/.}.jpg
//! sh -c '_sw1=$1 _sw2=$2; shift 2; convert "$_sw1" -resize 50% out/"$_sw2".jpg' sh 'a b.png' 'a b'
//! ```
//!
//! A shell expands a variable once and does not parse its value. So an item is never executed by
//! this shell, even where the lexer below reads a line differently than the shell does.
//!
//! A placeholder inside quotes is refused. The text there is often code of another program, as in
//! `ssh host "rm {}"`. So is one where a word in quotes has another meaning, such as a
//! here-document.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use shardwright_worker::connector::Item;

use super::argument::{Lexicon, NoRowNumber, Placeholder, Values};
use super::{TemplateError, shell};

/// Most levels of parentheses.
const DEPTH_MAX: usize = 64;
/// Characters that end a word.
const ENDS: &[u8] = b" \t\n;&|<>()";
/// Words before another command.
const RESERVED: [&[u8]; 10] =
    [b"!", b"do", b"elif", b"else", b"if", b"then", b"time", b"until", b"while", b"{"];

/// A parsed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShellLine {
    pieces: Vec<Piece>,
    is_for_one_item: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// Operators, blanks and comments.
    Text(Vec<u8>),
    Word(Vec<WordPart>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WordPart {
    Text(Vec<u8>),
    Placeholder(Placeholder),
    /// The inside of `$(…)`.
    Commands(Vec<Piece>),
}

impl ShellLine {
    pub(super) fn parse(line: &[u8], lexicon: &Lexicon) -> Result<Self, TemplateError> {
        if line.trim_ascii().is_empty() {
            return Err(TemplateError::Empty);
        }
        let mut lexer = Lexer {
            rest: line,
            lexicon,
            depth: 0,
            is_for_one_item: false,
            has_here_document: false,
        };
        let pieces = lexer.commands()?;
        Ok(Self { pieces, is_for_one_item: lexer.is_for_one_item })
    }

    /// Whether an item is the target of a redirection, or the value of a variable.
    pub(super) const fn is_for_one_item(&self) -> bool {
        self.is_for_one_item
    }

    pub(super) fn placeholders(&self) -> Vec<Placeholder> {
        let mut found = Vec::new();
        visit(&self.pieces, &mut |placeholder| found.push(placeholder));
        found
    }

    /// The arguments of the shell. A word with a placeholder for items is repeated for each.
    pub(super) fn arguments(
        &self,
        items: &[Item],
        slot: u32,
    ) -> Result<Vec<OsString>, NoRowNumber> {
        let mut script = Script { slot, text: Vec::new(), values: Vec::new(), of: BTreeMap::new() };
        script.add(&self.pieces, 0, items)?;
        Ok(script.into_arguments())
    }
}

fn visit(pieces: &[Piece], found: &mut impl FnMut(Placeholder)) {
    let words = pieces.iter().filter_map(|piece| match piece {
        Piece::Word(parts) => Some(parts),
        Piece::Text(_) => None,
    });
    for part in words.flatten() {
        match part {
            WordPart::Placeholder(placeholder) => found(*placeholder),
            WordPart::Commands(pieces) => visit(pieces, found),
            WordPart::Text(_) => {}
        }
    }
}

/// A script while it is built, and its arguments.
struct Script {
    slot: u32,
    text: Vec<u8>,
    values: Vec<Vec<u8>>,
    /// The number of the variable, from 1, of the placeholder of an item. A placeholder at the
    /// beginning of a word may have another value than elsewhere.
    of: BTreeMap<(usize, Placeholder, bool), usize>,
}

impl Script {
    /// Adds pieces for some items. `first` is the index of the first item in its batch.
    fn add(&mut self, pieces: &[Piece], first: usize, items: &[Item]) -> Result<(), NoRowNumber> {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.text.extend_from_slice(text),
                Piece::Word(parts) if is_of_item(parts) => {
                    for (index, item) in items.iter().enumerate() {
                        if index > 0 {
                            self.text.push(b' ');
                        }
                        self.add_word(parts, first + index, std::slice::from_ref(item))?;
                    }
                }
                Piece::Word(parts) => self.add_word(parts, first, items)?,
            }
        }
        Ok(())
    }

    fn add_word(
        &mut self,
        parts: &[WordPart],
        first: usize,
        items: &[Item],
    ) -> Result<(), NoRowNumber> {
        for (index, part) in parts.iter().enumerate() {
            match part {
                WordPart::Text(text) => self.text.extend_from_slice(text),
                WordPart::Commands(pieces) => self.add(pieces, first, items)?,
                WordPart::Placeholder(placeholder) => {
                    let key = (first, *placeholder, index == 0);
                    let number = match self.of.get(&key) {
                        Some(number) => *number,
                        None => {
                            let values = Values { item: items.first(), slot: self.slot };
                            self.values.push(values.of(*placeholder, index == 0)?);
                            self.of.insert(key, self.values.len());
                            self.values.len()
                        }
                    };
                    self.text.extend_from_slice(format!("\"$_sw{number}\"").as_bytes());
                }
            }
        }
        Ok(())
    }

    fn into_arguments(self) -> Vec<OsString> {
        let Self { mut text, values, .. } = self;
        if !values.is_empty() {
            let set = (1..=values.len()).map(|number| format!("_sw{number}=${{{number}}}"));
            let set = set.collect::<Vec<_>>().join(" ");
            let begin = format!("{set}; shift {}; ", values.len());
            text = [begin.as_bytes(), &text].concat();
        }
        let arguments = [b"-c".to_vec(), text, b"sh".to_vec()].into_iter().chain(values);
        arguments.map(OsString::from_vec).collect()
    }
}

/// Whether a word itself has a placeholder for items.
fn is_of_item(parts: &[WordPart]) -> bool {
    let is_of_item = |part: &WordPart| matches!(part, WordPart::Placeholder(it) if it.is_of_item());
    parts.iter().any(is_of_item)
}

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

struct Lexer<'a> {
    rest: &'a [u8],
    lexicon: &'a Lexicon,
    depth: usize,
    is_for_one_item: bool,
    /// Whether a here-document begins after this line.
    has_here_document: bool,
}

impl<'a> Lexer<'a> {
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
                    "leave the quotes out, since it is always one word: write \"a \"{placeholder}\" \
                     b\" instead of \"a {placeholder} b\""
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
    fn commands(&mut self) -> Result<Vec<Piece>, TemplateError> {
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
        let mut found = words.iter().filter_map(|word| {
            self.lexicon.first_in(std::os::unix::ffi::OsStrExt::as_bytes(word.as_os_str()))
        });
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

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use bytes::Bytes;
    use proptest::prelude::*;
    use shardwright_worker::connector::Payload;

    use super::*;
    use crate::placeholders::Placeholders;

    fn parsed(line: &str) -> Result<ShellLine, TemplateError> {
        ShellLine::parse(line.as_bytes(), &Lexicon::new(&Placeholders::default()).unwrap())
    }

    fn file(path: impl Into<Vec<u8>>) -> Item {
        let payload = Payload::File(OsString::from_vec(path.into()).into());
        Item { key: Bytes::from_static(b"k"), size: None, payload }
    }

    /// What a real shell prints for a line.
    fn printed(line: &str, items: &[Item]) -> Vec<u8> {
        let arguments = parsed(line).unwrap().arguments(items, 3).unwrap();
        let run = std::process::Command::new("/bin/sh").args(arguments).output().unwrap();
        assert_eq!(run.stderr, b"", "{line}: {}", String::from_utf8_lossy(&run.stderr));
        run.stdout
    }

    /// Names that a shell would read as something else.
    const HOSTILE: [&[u8]; 14] = [
        b"plain",
        b"two  words ",
        b"it's \"quoted\"",
        b"$(touch pwned) `touch pwned` ${HOME} $HOME",
        b"; touch pwned; #",
        b"a\nb\n\n",
        b"-rf",
        b"* ? [a-z] ~ {a,b}",
        b"\\ \\n \\\\",
        b"\xff\xfe \x81\x88' \xe2\x82",
        b"&& touch pwned || x | y > z < w",
        b"{} {.} {#}",
        b"=a b=c",
        b"!! \t \r \x01\x7f",
    ];

    #[test]
    fn a_word_is_the_item_byte_for_byte() {
        let mut written = Vec::new();
        for name in HOSTILE {
            let path = [b"./-dir/", name].concat();
            for line in [
                "printf %s {}",
                "printf '%s' {} | cat",
                "x={}; printf %s \"$x\"",
                "f() { printf %s {}; }; f other arguments",
                "printf %s \"$(printf %s {}; echo .)\" | sed '$ s/\\.$//'",
                "(cd / && printf %s {})",
                "if true; then printf %s {}; fi",
                "for one in {}; do printf %s \"$one\"; done",
                "case {} in '') ;; *) printf %s {} ;; esac",
                "set -- a b; printf %s {}",
                "printf %s {} # not 'this {}",
                "! false && { printf %s {}; }",
                "sh -c 'printf %s \"$1\"' sh {}",
            ] {
                assert_eq!(printed(line, &[file(path.clone())]), path, "{line}");
            }
            written = printed("printf '%s|' {/} {//} x{/}y {%}", &[file(path.clone())]);
            let plain = if name.starts_with(b"-") { [b"./", name].concat() } else { name.to_vec() };
            let expected = [&plain[..], b"|./-dir|x", name, b"y|3|"].concat();
            assert_eq!(written, expected);
        }
        assert!(!written.is_empty() && !std::path::Path::new("pwned").exists());
    }

    #[test]
    fn items_of_a_batch_are_words() {
        let items = HOSTILE.map(|name| file([b"a/", name].concat()));
        let all: Vec<u8> =
            items.iter().flat_map(|item| [&text(item), &b"|"[..]].concat()).collect();
        assert_eq!(printed("printf '%s|' {} | cat", &items), all);
        let two = [file("a/b.c"), file("d/e f")];
        for (line, expected) in [
            ("printf '%s|' -t {%} {} {/.} x{/}y", "-t|3|a/b.c|d/e f|b|e f|xb.cy|xe fy|"),
            ("printf '%s|' out/{/.}-$(printf %s {//})", "out/b-a|out/e f-d|"),
            ("printf '%s|' \"$(printf '%s,' {})\"", "a/b.c,d/e f,|"),
            ("for one in {}; do printf '%s|' \"$one\"; done", "a/b.c|d/e f|"),
        ] {
            let written = printed(line, &two);
            assert_eq!(String::from_utf8(written).unwrap(), expected, "{line}");
        }
    }

    fn text(item: &Item) -> Vec<u8> {
        super::super::text_of(item).into_owned()
    }

    #[test]
    fn redirections_are_safe() {
        let folder = tempfile::tempdir().unwrap();
        for name in HOSTILE {
            let path = folder.path().join(std::ffi::OsStr::from_bytes(name));
            let item = file(path.as_os_str().as_bytes());
            assert_eq!(printed("echo it >{} && cat < {} 2>&1", &[item]), b"it\n");
            assert_eq!(std::fs::read(path).unwrap(), b"it\n");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), HOSTILE.len());
    }

    #[test]
    fn an_item_that_is_one_file_or_value_is_noticed() {
        for line in ["cat >{}", "cat < {} x", "x={} cat", "sort 2>>{/.}.log {}", "x=1{/}"] {
            assert!(parsed(line).unwrap().is_for_one_item(), "{line}");
        }
        for line in ["cat {}", "cat {} 2>&1 >log", "x=$(cat {})", "cat >{%} {}", "cat >a {}"] {
            assert!(!parsed(line).unwrap().is_for_one_item(), "{line}");
        }
    }

    #[test]
    fn misplaced_placeholders_are_refused() {
        for (line, place) in [
            ("cat \"{}\"", "quotes"),
            ("cat 'a {.} b'", "quotes"),
            ("ssh host \"rm {}\"", "quotes"),
            ("echo \"a 'b' {/}\"", "quotes"),
            ("echo \"$(x \"{}\")\"", "quotes"),
            ("echo `cat {}`", "backquotes"),
            ("echo \"`cat {}`\"", "backquotes"),
            ("echo ${x:-{}}", "an expansion"),
            ("echo $((1 + {#}))", "an expansion"),
            ("echo \"${x#{/}}\"", "an expansion"),
            ("cat <<END\n{}\nEND", "or after a here-document"),
            ("cat <<-{}\n\n", "or after a here-document"),
            ("cat <<END\nEND\ncat {}", "or after a here-document"),
        ] {
            match parsed(line) {
                Err(TemplateError::MisplacedPlaceholder { place: found, .. }) => {
                    assert_eq!(found, place, "{line}");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn items_are_neither_programs_nor_code() {
        for line in [
            "{}",
            "true; {} x",
            "a | {/}",
            "x=1 {}",
            "(./{})",
            "if {}; then :; fi",
            "2>log {}",
            ">log {}",
            "! {}",
            "{ {.}; }",
            "echo $({})",
            "a &&\n{}",
        ] {
            let found = parsed(line);
            let is_it = matches!(found, Err(TemplateError::PlaceholderInProgram { .. }));
            assert!(is_it, "{line}: {found:?}");
        }
        for line in [
            "sh -c {}",
            "ls; bash -ec x{}",
            "eval {}",
            "env sh -c {} | x",
            "su me -c {}",
            "echo $(sh -c {})",
            "'sh' \"-c\" {}",
            "\\sh -c {}",
        ] {
            let found = parsed(line);
            let is_it = matches!(found, Err(TemplateError::PlaceholderInScript { .. }));
            assert!(is_it, "{line}: {found:?}");
        }
        for line in ["sh script.sh {}", "sh -c 'cat \"$1\"' _ {}", "sh -c true; cat {}"] {
            assert!(parsed(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn braces_that_are_no_placeholder_stay() {
        for (line, expected) in [
            ("echo \\{} ${#} $# {a,b}x '{ }' {''} '{''}' {} # {}", "{} 0 0 {a,b}x { } {} {} i\n"),
            ("echo 'it'\\''s' \"a\\\"b\" {/}", "it's a\"b i\n"),
            ("awk 'BEGIN { print \"{\" 1 \"}\" }'; : {}", "{1}\n"),
        ] {
            assert_eq!(String::from_utf8(printed(line, &[file("i")])).unwrap(), expected, "{line}");
        }
        assert!(parsed(&"(".repeat(10_000)) == Err(TemplateError::TooDeep));
        assert!(parsed(" \n\t") == Err(TemplateError::Empty));
    }

    /// The line from which pieces were read.
    fn source(pieces: &[Piece], to: &mut Vec<u8>) {
        for piece in pieces {
            let Piece::Word(parts) = piece else {
                let Piece::Text(text) = piece else { continue };
                to.extend_from_slice(text);
                continue;
            };
            for part in parts {
                match part {
                    WordPart::Text(text) => to.extend_from_slice(text),
                    WordPart::Commands(pieces) => source(pieces, to),
                    WordPart::Placeholder(placeholder) => {
                        to.extend_from_slice(match placeholder {
                            Placeholder::Item => b"{}",
                            Placeholder::WithoutExtension => b"{.}",
                            Placeholder::Name => b"{/}",
                            Placeholder::Folder => b"{//}",
                            Placeholder::Stem => b"{/.}",
                            Placeholder::Slot => b"{%}",
                            Placeholder::Row => b"{#}",
                        });
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_line_is_refused_or_kept_to_the_last_byte(
            parts in prop::collection::vec(prop::sample::select(vec![
                "{}", "{/.}", "{%}", " ", "\n", "'", "\"", "\\", "`", "$", "$(", "${", "$((", "(",
                ")", "}", "<", ">", "<<", "|", "&", ";", "#", "a", "sh -c ", "x=", "2", "if ",
            ]), 0..24),
        ) {
            let line = parts.concat();
            if let Ok(parsed) = parsed(&line) {
                let mut kept = Vec::new();
                source(&parsed.pieces, &mut kept);
                prop_assert_eq!(String::from_utf8(kept).unwrap(), line);
            }
        }
    }
}
