//! A command with places for items.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use shardwright_worker::connector::{Item, Payload};

const PLACE: &[u8] = b"{}";

/// Why a command cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// There is none.
    #[error("there is no command to run")]
    Empty,
    /// The program itself would be an item.
    #[error("the program must not contain {{}}: what to run cannot come from the source")]
    PlaceInProgram,
}

/// A program and its arguments, in which `{}` stands for an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    program: OsString,
    arguments: Vec<OsString>,
}

impl Template {
    /// Checks a command.
    pub fn new(command: &[OsString]) -> Result<Self, TemplateError> {
        let [program, arguments @ ..] = command else { return Err(TemplateError::Empty) };
        if program.is_empty() {
            return Err(TemplateError::Empty);
        }
        if contains_place(program) {
            return Err(TemplateError::PlaceInProgram);
        }
        Ok(Self { program: program.clone(), arguments: arguments.to_vec() })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// Whether an argument has a place for an item.
    #[must_use]
    pub fn has_place(&self) -> bool {
        self.arguments.iter().any(|argument| contains_place(argument))
    }

    /// The arguments for one item. Without a place, it comes last.
    #[must_use]
    pub(crate) fn for_item(&self, item: &Item) -> Vec<OsString> {
        let text = text_of(item);
        let mut arguments: Vec<OsString> =
            self.arguments.iter().map(|argument| fill(argument, text)).collect();
        if !self.has_place() {
            arguments.push(OsStr::from_bytes(text).to_owned());
        }
        arguments
    }

    /// The arguments for some items: each argument with a place is there once for each of them.
    #[must_use]
    pub(crate) fn for_items(&self, items: &[Item]) -> Vec<OsString> {
        let mut arguments = Vec::with_capacity(self.arguments.len() + items.len());
        for argument in &self.arguments {
            if contains_place(argument) {
                arguments.extend(items.iter().map(|item| fill(argument, text_of(item))));
            } else {
                arguments.push(argument.clone());
            }
        }
        arguments
    }

    /// The arguments as they are.
    #[must_use]
    pub fn arguments(&self) -> &[OsString] {
        &self.arguments
    }
}

/// What stands for an item on a command line, and on a line of input.
#[must_use]
pub(super) fn text_of(item: &Item) -> &[u8] {
    match &item.payload {
        Payload::File(path) => path.as_os_str().as_bytes(),
        Payload::Row { bytes, .. } => bytes,
        Payload::Object { url, .. } => url.as_bytes(),
    }
}

fn contains_place(argument: &OsStr) -> bool {
    argument.as_bytes().windows(PLACE.len()).any(|window| window == PLACE)
}

fn fill(argument: &OsStr, text: &[u8]) -> OsString {
    let mut filled = Vec::with_capacity(argument.len() + text.len());
    let mut rest = argument.as_bytes();
    while let Some(at) = rest.windows(PLACE.len()).position(|window| window == PLACE) {
        filled.extend_from_slice(rest.get(..at).unwrap_or_default());
        filled.extend_from_slice(text);
        rest = rest.get(at + PLACE.len()..).unwrap_or_default();
    }
    filled.extend_from_slice(rest);
    OsString::from_vec(filled)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn template(command: &[&str]) -> Result<Template, TemplateError> {
        Template::new(&command.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn row(text: &'static [u8]) -> Item {
        let payload = Payload::Row { number: 0, bytes: Bytes::from_static(text) };
        Item { key: Bytes::from_static(b"k"), size: None, payload }
    }

    fn bytes(arguments: &[OsString]) -> Vec<&[u8]> {
        arguments.iter().map(|argument| argument.as_bytes()).collect()
    }

    #[test]
    fn an_item_goes_to_every_place_byte_for_byte() {
        let template = template(&["cp", "{}", "to/{}.x{}", "-v"]).unwrap();
        let arguments = template.for_item(&row(b"a \xff{}"));
        let expected: [&[u8]; 3] = [b"a \xff{}", b"to/a \xff{}.xa \xff{}", b"-v"];
        assert_eq!(bytes(&arguments), expected);
    }

    #[test]
    fn without_a_place_an_item_comes_last() {
        let arguments = template(&["wc", "-c"]).unwrap().for_item(&row(b"a"));
        assert_eq!(bytes(&arguments), [b"-c".as_slice(), b"a"]);
    }

    #[test]
    fn a_place_takes_all_items_of_a_batch() {
        let arguments = template(&["rm", "--", "{}"]).unwrap().for_items(&[row(b"a"), row(b"b")]);
        assert_eq!(bytes(&arguments), [b"--".as_slice(), b"a", b"b"]);
    }

    #[test]
    fn what_to_run_never_comes_from_the_source() {
        assert_eq!(template(&["{}", "x"]), Err(TemplateError::PlaceInProgram));
        assert_eq!(template(&["./{}.sh"]), Err(TemplateError::PlaceInProgram));
        assert_eq!(template(&[]), Err(TemplateError::Empty));
        assert_eq!(template(&["", "x"]), Err(TemplateError::Empty));
    }
}
