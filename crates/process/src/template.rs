//! A command with placeholders for items.

mod shell;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use shardwright_worker::connector::{Item, Payload};

const PLACEHOLDER: &[u8] = b"{}";

/// Why a command cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// No command is given.
    #[error("there is no command to run")]
    Empty,
    /// The program contains the placeholder.
    #[error("the program must not contain {{}}: the source cannot choose what to run")]
    PlaceholderInProgram,
    /// A shell would execute the item's text.
    #[error(
        "a shell would execute the item's name as code; pass the item as an argument of the \
         script: `sh -c '… \"$1\"' _ {{}}`"
    )]
    PlaceholderInScript,
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
        if contains_placeholder(program) {
            return Err(TemplateError::PlaceholderInProgram);
        }
        if shell::is_in_script(command) {
            return Err(TemplateError::PlaceholderInScript);
        }
        Ok(Self { program: program.clone(), arguments: arguments.to_vec() })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// Whether an argument contains the placeholder.
    #[must_use]
    pub fn has_placeholder(&self) -> bool {
        self.arguments.iter().any(|argument| contains_placeholder(argument))
    }

    /// The arguments for one item. Without a placeholder, the item is the last argument.
    #[must_use]
    pub(crate) fn for_item(&self, item: &Item) -> Vec<OsString> {
        let text = text_of(item);
        let mut arguments: Vec<OsString> =
            self.arguments.iter().map(|argument| fill(argument, text)).collect();
        if !self.has_placeholder() {
            arguments.push(OsStr::from_bytes(text).to_owned());
        }
        arguments
    }

    /// The arguments for a batch. An argument with the placeholder is repeated for each item.
    #[must_use]
    pub(crate) fn for_items(&self, items: &[Item]) -> Vec<OsString> {
        let mut arguments = Vec::with_capacity(self.arguments.len() + items.len());
        for argument in &self.arguments {
            if contains_placeholder(argument) {
                arguments.extend(items.iter().map(|item| fill(argument, text_of(item))));
            } else {
                arguments.push(argument.clone());
            }
        }
        arguments
    }

    /// The arguments, with placeholders.
    #[must_use]
    pub fn arguments(&self) -> &[OsString] {
        &self.arguments
    }
}

/// The text of an item on a command line or on stdin.
#[must_use]
pub(super) fn text_of(item: &Item) -> &[u8] {
    match &item.payload {
        Payload::File(path) => path.as_os_str().as_bytes(),
        Payload::Row { bytes, .. } => bytes,
        Payload::Object { url, .. } => url.as_bytes(),
    }
}

fn contains_placeholder(argument: &OsStr) -> bool {
    argument.as_bytes().windows(PLACEHOLDER.len()).any(|window| window == PLACEHOLDER)
}

fn fill(argument: &OsStr, text: &[u8]) -> OsString {
    let mut filled = Vec::with_capacity(argument.len() + text.len());
    let mut rest = argument.as_bytes();
    while let Some(at) = rest.windows(PLACEHOLDER.len()).position(|window| window == PLACEHOLDER) {
        filled.extend_from_slice(rest.get(..at).unwrap_or_default());
        filled.extend_from_slice(text);
        rest = rest.get(at + PLACEHOLDER.len()..).unwrap_or_default();
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
    fn an_item_replaces_every_placeholder_byte_for_byte() {
        let template = template(&["cp", "{}", "to/{}.x{}", "-v"]).unwrap();
        let arguments = template.for_item(&row(b"a \xff{}"));
        let expected: [&[u8]; 3] = [b"a \xff{}", b"to/a \xff{}.xa \xff{}", b"-v"];
        assert_eq!(bytes(&arguments), expected);
    }

    #[test]
    fn without_a_placeholder_the_item_comes_last() {
        let arguments = template(&["wc", "-c"]).unwrap().for_item(&row(b"a"));
        assert_eq!(bytes(&arguments), [b"-c".as_slice(), b"a"]);
    }

    #[test]
    fn a_placeholder_takes_all_items_of_a_batch() {
        let arguments = template(&["rm", "--", "{}"]).unwrap().for_items(&[row(b"a"), row(b"b")]);
        assert_eq!(bytes(&arguments), [b"--".as_slice(), b"a", b"b"]);
    }

    #[test]
    fn the_program_never_comes_from_the_source() {
        assert_eq!(template(&["{}", "x"]), Err(TemplateError::PlaceholderInProgram));
        assert_eq!(template(&["./{}.sh"]), Err(TemplateError::PlaceholderInProgram));
        assert_eq!(template(&[]), Err(TemplateError::Empty));
        assert_eq!(template(&["", "x"]), Err(TemplateError::Empty));
    }
}
