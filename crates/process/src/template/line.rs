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

mod lexer;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use shardwright_worker::connector::Item;

use self::lexer::Lexer;
use super::TemplateError;
use super::argument::{Lexicon, NoRowNumber, Placeholder, Values};

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
        let mut lexer = Lexer::new(line, lexicon);
        let pieces = lexer.commands()?;
        Ok(Self { pieces, is_for_one_item: lexer.is_for_one_item() })
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
