//! An argument with placeholders, and what they stand for.
//!
//! The meaning is that of GNU parallel:
//!
//! | placeholder | of `a.b/c.tar.gz` | of `.bashrc` | of `a/` |
//! |---|---|---|---|
//! | `{}` | `a.b/c.tar.gz` | `.bashrc` | `a/` |
//! | `{.}` | `a.b/c.tar` | | `a/` |
//! | `{/}` | `c.tar.gz` | `.bashrc` | |
//! | `{//}` | `a.b` | `.` | `.` |
//! | `{/.}` | `c.tar` | | |
//! | `{%}` | the number of the slot, from 1 | | |
//! | `{#}` | the row number, from 1 | | |

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use shardwright_coordination::ParkReason;
use shardwright_worker::connector::{Item, Payload};
use shardwright_worker::handler::ItemFailure;

use crate::item::row_of;
use crate::placeholders::Placeholders;

/// The placeholders beside the one for the whole item.
const OTHERS: [(&[u8], Placeholder); 6] = [
    (b"{.}", Placeholder::WithoutExtension),
    (b"{/}", Placeholder::Name),
    (b"{//}", Placeholder::Folder),
    (b"{/.}", Placeholder::Stem),
    (b"{%}", Placeholder::Slot),
    (b"{#}", Placeholder::Row),
];

/// What a placeholder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Placeholder {
    Item,
    WithoutExtension,
    /// The last part of the path.
    Name,
    /// All but the last part of the path.
    Folder,
    /// The name without its extension.
    Stem,
    Slot,
    Row,
}

impl Placeholder {
    /// Whether it differs between the items of a batch.
    pub(super) const fn is_of_item(self) -> bool {
        !matches!(self, Self::Slot)
    }
}

/// The texts of the placeholders of a command.
#[derive(Clone, Debug)]
pub(super) struct Lexicon {
    item: Vec<u8>,
    has_others: bool,
}

impl Lexicon {
    /// None if the text of the item is empty.
    pub(super) fn new(placeholders: &Placeholders) -> Option<Self> {
        let has_others = matches!(placeholders, Placeholders::Parallel { .. });
        Some(Self { item: placeholders.item(), has_others }).filter(|it| !it.item.is_empty())
    }

    /// The placeholder that a text begins with, and its length.
    pub(super) fn at(&self, text: &[u8]) -> Option<(Placeholder, usize)> {
        if text.starts_with(&self.item) {
            return Some((Placeholder::Item, self.item.len()));
        }
        let mut others = OTHERS.iter().filter(|_| self.has_others);
        let (name, placeholder) = others.find(|(name, _)| text.starts_with(name))?;
        Some((*placeholder, name.len()))
    }

    /// The first placeholder in a text, as it is written there.
    pub(super) fn first_in(&self, text: &[u8]) -> Option<String> {
        let found = |at: usize| {
            let rest = text.get(at..)?;
            let (_, length) = self.at(rest)?;
            Some(String::from_utf8_lossy(rest.get(..length)?).into_owned())
        };
        (0..text.len()).find_map(found)
    }

    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        (0..text.len()).any(|at| text.get(at..).is_some_and(|rest| self.at(rest).is_some()))
    }

    /// The text that stands for the item.
    pub(super) fn item(&self) -> String {
        String::from_utf8_lossy(&self.item).into_owned()
    }
}

/// A part of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Text(Vec<u8>),
    Placeholder(Placeholder),
}

/// An argument with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Argument(Vec<Part>);

impl Argument {
    pub(super) fn parse(text: &[u8], lexicon: &Lexicon) -> Self {
        let (mut parts, mut literal, mut rest) = (Vec::new(), Vec::new(), text);
        while let [first, after @ ..] = rest {
            if let Some((placeholder, length)) = lexicon.at(rest) {
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(Part::Placeholder(placeholder));
                rest = rest.get(length..).unwrap_or_default();
            } else {
                literal.push(*first);
                rest = after;
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Self(parts)
    }

    pub(super) fn placeholders(&self) -> impl Iterator<Item = Placeholder> {
        self.0.iter().filter_map(|part| match part {
            Part::Placeholder(placeholder) => Some(*placeholder),
            Part::Text(_) => None,
        })
    }

    /// The argument for an item.
    pub(super) fn fill(&self, values: &Values<'_>) -> Result<OsString, NoRowNumber> {
        let mut filled = Vec::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => filled.extend_from_slice(text),
                Part::Placeholder(it) => {
                    let value = values.of(*it, filled.is_empty())?;
                    filled.extend_from_slice(&value);
                }
            }
        }
        Ok(OsString::from_vec(filled))
    }
}

/// `{#}` stands for the number of an item that is no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{{#}} stands for a row number, and this item is not a row")]
pub struct NoRowNumber;

impl From<NoRowNumber> for ItemFailure {
    fn from(error: NoRowNumber) -> Self {
        Self::permanent(ParkReason::Other, error.to_string()).own()
    }
}

/// What the placeholders stand for.
pub(super) struct Values<'a> {
    /// None for a program that gets no item as an argument.
    pub(super) item: Option<&'a Item>,
    pub(super) slot: u32,
}

impl Values<'_> {
    /// The value of a placeholder. Where an argument begins with it, a name that begins with a dash
    /// gets a `./`, so that no program reads it as an option. Rows are passed as they are.
    pub(super) fn of(
        &self,
        placeholder: Placeholder,
        is_first: bool,
    ) -> Result<Vec<u8>, NoRowNumber> {
        let text = self.item.map(text_of).unwrap_or_default();
        let is_row = self.item.is_some_and(|item| matches!(item.payload, Payload::Row { .. }));
        let plain = |name: &[u8]| {
            let is_option = is_first && !is_row && name.starts_with(b"-");
            if is_option { [b"./", name].concat() } else { name.to_vec() }
        };
        Ok(match placeholder {
            Placeholder::Item => text.into_owned(),
            Placeholder::WithoutExtension => without_extension(&text).to_vec(),
            Placeholder::Name => plain(name(&text)),
            Placeholder::Folder => folder(&text).to_vec(),
            Placeholder::Stem => plain(without_extension(name(&text))),
            Placeholder::Slot => self.slot.to_string().into_bytes(),
            Placeholder::Row => {
                self.item.and_then(row_of).ok_or(NoRowNumber)?.to_string().into_bytes()
            }
        })
    }
}

/// The text of an item on a command line or on stdin. A path that begins with a dash gets a `./`.
#[must_use]
pub fn text_of(item: &Item) -> Cow<'_, [u8]> {
    match &item.payload {
        Payload::File(path) => {
            let path = path.as_os_str().as_bytes();
            if path.starts_with(b"-") { [b"./", path].concat().into() } else { path.into() }
        }
        Payload::Row { bytes, .. } => Cow::Borrowed(bytes),
        Payload::Object { url, .. } => Cow::Borrowed(url.as_bytes()),
    }
}

/// What follows the last slash.
fn name(text: &[u8]) -> &[u8] {
    text.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// A text without the last dot of its name and what follows. A dot at the end stays.
fn without_extension(text: &[u8]) -> &[u8] {
    let dot = text.iter().rposition(|byte| b"./".contains(byte));
    let dot = dot.filter(|at| text.get(*at) == Some(&b'.') && at + 1 < text.len());
    dot.and_then(|at| text.get(..at)).unwrap_or(text)
}

/// The folder, as `dirname` prints it.
fn folder(text: &[u8]) -> &[u8] {
    let above = without_slashes(text);
    let above = above.strip_suffix(name(above)).unwrap_or_default();
    if above.is_empty() { b"." } else { without_slashes(above) }
}

/// A text without slashes at its end, but not without the first of a text of slashes.
fn without_slashes(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b'/');
    match end {
        Some(end) => text.get(..=end).unwrap_or_default(),
        None => text.get(..1).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_path_are_those_of_gnu_parallel() {
        for (text, expected) in [
            ("foo.jpg", ["foo", "foo.jpg", ".", "foo"]),
            ("sub/foo.jpg", ["sub/foo", "foo.jpg", "sub", "foo"]),
            ("sub.dir/foo.jpg", ["sub.dir/foo", "foo.jpg", "sub.dir", "foo"]),
            ("sub.dir/bar", ["sub.dir/bar", "bar", "sub.dir", "bar"]),
            ("a.tar.gz", ["a.tar", "a.tar.gz", ".", "a.tar"]),
            (".bashrc", ["", ".bashrc", ".", ""]),
            ("home/.bashrc", ["home/", ".bashrc", "home", ""]),
            ("end.", ["end.", "end.", ".", "end."]),
            ("two..", ["two..", "two..", ".", "two.."]),
            ("..", ["..", "..", ".", ".."]),
            ("a/b/", ["a/b/", "", "a", ""]),
            ("a.b/", ["a.b/", "", ".", ""]),
            ("/a", ["/a", "a", "/", "a"]),
            ("/a.b", ["/a", "a.b", "/", "a"]),
            ("/", ["/", "", "/", ""]),
            ("//", ["//", "", "/", ""]),
            ("//a", ["//a", "a", "/", "a"]),
            ("a//b", ["a//b", "b", "a", "b"]),
            ("./a/b.c", ["./a/b", "b.c", "./a", "b"]),
            ("", ["", "", ".", ""]),
            ("a\n/b\n.c", ["a\n/b\n", "b\n.c", "a\n", "b\n"]),
            ("s3://bucket/a.b/c.d", ["s3://bucket/a.b/c", "c.d", "s3://bucket/a.b", "c"]),
        ] {
            let text_bytes = text.as_bytes();
            let found = [
                without_extension(text_bytes),
                name(text_bytes),
                folder(text_bytes),
                without_extension(name(text_bytes)),
            ];
            assert_eq!(found.map(|it| str::from_utf8(it).unwrap()), expected, "{text:?}");
        }
    }
}
