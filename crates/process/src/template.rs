//! A command with placeholders for items.

mod argument;
mod line;
mod shell;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use shardwright_worker::connector::Item;

use self::argument::{Argument, Lexicon, Placeholder, Values};
pub use self::argument::{NoRowNumber, text_of};
use self::line::ShellLine;
use crate::placeholders::Placeholders;

/// The shell of shell lines.
const SHELL: &str = "/bin/sh";

/// Why a command cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// No command is given.
    #[error("there is no command to run")]
    Empty,
    /// No text stands for the item.
    #[error("the text that stands for the item is empty")]
    EmptyPlaceholder,
    /// The program contains a placeholder.
    #[error("the program must not contain {placeholder}: the source cannot choose what to run")]
    PlaceholderInProgram {
        /// The placeholder.
        placeholder: String,
    },
    /// A shell would execute the item's text.
    #[error(
        "a shell would execute the text of {placeholder} as code; pass it as an argument of the \
         script: `sh -c '… \"$1\"' _ {placeholder}`"
    )]
    PlaceholderInScript {
        /// The placeholder.
        placeholder: String,
    },
    /// A placeholder of a shell line is at a place where it has no safe value.
    #[error("{placeholder} is inside {place}; {remedy}")]
    MisplacedPlaceholder {
        /// The placeholder.
        placeholder: String,
        /// What it is inside of.
        place: &'static str,
        /// What to write instead.
        remedy: String,
    },
    /// The parts of a shell line are nested too deeply.
    #[error("the shell line is nested too deeply")]
    TooDeep,
}

/// A program and its arguments, in which placeholders stand for items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    program: OsString,
    form: Form,
    placeholders: Vec<Placeholder>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Arguments(Vec<Argument>),
    Line(ShellLine),
}

impl Template {
    /// Checks a command with the [usual placeholders](Placeholders::default).
    pub fn new(command: &[OsString]) -> Result<Self, TemplateError> {
        Self::with(command, &Placeholders::default())
    }

    /// Checks a command with some placeholders.
    pub fn with(command: &[OsString], placeholders: &Placeholders) -> Result<Self, TemplateError> {
        let lexicon = Lexicon::new(placeholders).ok_or(TemplateError::EmptyPlaceholder)?;
        let [program, arguments @ ..] = command else { return Err(TemplateError::Empty) };
        if program.is_empty() {
            return Err(TemplateError::Empty);
        }
        if let Some(placeholder) = lexicon.first_in(program.as_bytes()) {
            return Err(TemplateError::PlaceholderInProgram { placeholder });
        }
        if shell::is_in_script(command, &lexicon) {
            let mut found = arguments.iter().filter_map(|it| lexicon.first_in(it.as_bytes()));
            let placeholder = found.next().unwrap_or_else(|| lexicon.item());
            return Err(TemplateError::PlaceholderInScript { placeholder });
        }
        let arguments = arguments.iter().map(|it| Argument::parse(it.as_bytes(), &lexicon));
        let arguments: Vec<Argument> = arguments.collect();
        let placeholders = arguments.iter().flat_map(Argument::placeholders).collect();
        Ok(Self { program: program.clone(), form: Form::Arguments(arguments), placeholders })
    }

    /// Checks a line for `/bin/sh`, in which each placeholder is one word or a part of one,
    /// whatever the item contains.
    pub fn shell(line: &OsStr, placeholders: &Placeholders) -> Result<Self, TemplateError> {
        let lexicon = Lexicon::new(placeholders).ok_or(TemplateError::EmptyPlaceholder)?;
        let line = ShellLine::parse(line.as_bytes(), &lexicon)?;
        let placeholders = line.placeholders();
        Ok(Self { program: SHELL.into(), form: Form::Line(line), placeholders })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// Whether it is a line for a shell.
    #[must_use]
    pub const fn is_shell(&self) -> bool {
        matches!(self.form, Form::Line(_))
    }

    /// Whether there is any placeholder.
    #[must_use]
    pub fn has_placeholder(&self) -> bool {
        !self.placeholders.is_empty()
    }

    /// Whether a placeholder stands for an item or a part of it.
    #[must_use]
    pub fn names_items(&self) -> bool {
        self.placeholders.iter().any(|placeholder| placeholder.is_of_item())
    }

    /// Whether a placeholder stands for the number of a row.
    #[must_use]
    pub fn needs_row_numbers(&self) -> bool {
        self.placeholders.contains(&Placeholder::Row)
    }

    /// Whether an item is the target of a redirection of a shell line, or the value of a variable.
    /// Several items cannot be.
    #[must_use]
    pub const fn is_for_one_item(&self) -> bool {
        match &self.form {
            Form::Arguments(_) => false,
            Form::Line(line) => line.is_for_one_item(),
        }
    }

    /// The arguments for one item. Without a placeholder, the item is the last argument.
    pub fn for_item(&self, item: &Item, slot: u32) -> Result<Vec<OsString>, NoRowNumber> {
        let mut arguments = self.for_items(std::slice::from_ref(item), slot)?;
        if !self.has_placeholder() && !self.is_shell() {
            arguments.push(OsString::from_vec(text_of(item).into_owned()));
        }
        Ok(arguments)
    }

    /// The arguments for a batch. An argument with a placeholder for items is repeated for each.
    pub fn for_items(&self, items: &[Item], slot: u32) -> Result<Vec<OsString>, NoRowNumber> {
        let arguments = match &self.form {
            Form::Arguments(arguments) => arguments,
            Form::Line(line) => return line.arguments(items, slot),
        };
        let mut filled = Vec::with_capacity(arguments.len() + items.len());
        for argument in arguments {
            if argument.placeholders().any(Placeholder::is_of_item) {
                for item in items {
                    filled.push(argument.fill(&Values { item: Some(item), slot })?);
                }
            } else {
                filled.push(argument.fill(&Values { item: None, slot })?);
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use shardwright_worker::connector::Payload;

    use super::*;

    fn template(command: &[&str]) -> Result<Template, TemplateError> {
        Template::new(&command.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn row(text: &'static [u8]) -> Item {
        let payload = Payload::Row { number: 6, bytes: Bytes::from_static(text) };
        Item { key: Bytes::from_static(b"k"), size: None, payload }
    }

    fn file(path: &[u8]) -> Item {
        let payload = Payload::File(OsStr::from_bytes(path).into());
        Item { key: Bytes::from_static(b"k"), size: None, payload }
    }

    fn bytes(arguments: &[OsString]) -> Vec<&[u8]> {
        arguments.iter().map(|argument| argument.as_bytes()).collect()
    }

    fn text(arguments: Result<Vec<OsString>, NoRowNumber>) -> String {
        arguments.unwrap().join(OsStr::new("|")).into_string().unwrap()
    }

    #[test]
    fn an_item_replaces_every_placeholder_byte_for_byte() {
        let template = template(&["cp", "{}", "to/{}.x{}", "-v"]).unwrap();
        let arguments = template.for_item(&row(b"a \xff{}"), 1).unwrap();
        let expected: [&[u8]; 3] = [b"a \xff{}", b"to/a \xff{}.xa \xff{}", b"-v"];
        assert_eq!(bytes(&arguments), expected);
    }

    #[test]
    fn every_placeholder_may_be_part_of_an_argument() {
        let command = ["x", "{}:{.}:{/}:{//}:{/.}:{%}:{#}", "{{}}", "{//}.{/.}"];
        let arguments = template(&command).unwrap().for_item(&row(b"a.b/c.d.e"), 3);
        let expected = "a.b/c.d.e:a.b/c.d:c.d.e:a.b:c.d:3:7|{a.b/c.d.e}|a.b.c.d";
        assert_eq!(text(arguments), expected);
    }

    #[test]
    fn other_braces_pass_untouched() {
        let command = ["awk", "{print $1}", "{ }", "{1}", "{..}", "${x}", "{/", "{+}", "{a,b}"];
        let arguments = template(&command).unwrap().for_item(&row(b"i"), 1);
        assert_eq!(text(arguments), "{print $1}|{ }|{1}|{..}|${x}|{/|{+}|{a,b}|i");
    }

    #[test]
    fn without_a_placeholder_the_item_comes_last() {
        let arguments = template(&["wc", "-c"]).unwrap().for_item(&row(b"a"), 1);
        assert_eq!(text(arguments), "-c|a");
        // As in GNU parallel, any placeholder counts.
        assert_eq!(text(template(&["sleep", "{%}"]).unwrap().for_item(&row(b"a"), 2)), "2");
    }

    #[test]
    fn another_text_stands_for_the_item_alone() {
        let command = ["echo", "{}", "ITEM", "{/}", "xITEMx"].map(OsString::from);
        let template = Template::with(&command, &Placeholders::with_item(b"ITEM")).unwrap();
        assert_eq!(text(template.for_item(&row(b"a/b"), 1)), "{}|a/b|b|xa/bx");
        let empty = Template::with(&command, &Placeholders::with_item(b""));
        assert_eq!(empty, Err(TemplateError::EmptyPlaceholder));
    }

    #[test]
    fn commands_of_old_runs_have_one_placeholder() {
        let command = ["echo", "{}", "{.}", "{#}", "{%}"].map(OsString::from);
        let template = Template::with(&command, &Placeholders::item_only()).unwrap();
        assert_eq!(text(template.for_item(&file(b"a.b"), 1)), "a.b|{.}|{#}|{%}");
    }

    #[test]
    fn path_that_begins_with_a_dash_is_no_option() {
        let command = ["x", "{}", "{.}", "{/}", "{//}", "{/.}", "to/{/}", "t-{/.}", "{/}{/}"];
        let template = template(&command).unwrap();
        let arguments = text(template.for_item(&file(b"-a/-b.c"), 1));
        assert_eq!(arguments, "./-a/-b.c|./-a/-b|./-b.c|./-a|./-b|to/-b.c|t--b|./-b.c-b.c");
        let plain = text(template.for_item(&file(b"a/b.c"), 1));
        assert_eq!(plain, "a/b.c|a/b|b.c|a|b|to/b.c|t-b|b.cb.c");
        // A row may be an option.
        let row = text(template.for_item(&row(b"-a/-b.c"), 1));
        assert_eq!(row, "-a/-b.c|-a/-b|-b.c|-a|-b|to/-b.c|t--b|-b.c-b.c");
        assert_eq!(text_of(&file(b"-")), b"./-".as_slice());
    }

    #[test]
    fn row_number_of_another_item_fails_the_item() {
        let numbered = template(&["echo", "{#}"]).unwrap();
        assert!(numbered.needs_row_numbers() && numbered.names_items());
        assert!(numbered.for_item(&file(b"a"), 1).is_err());
    }

    #[test]
    fn a_placeholder_takes_all_items_of_a_batch() {
        let items = [row(b"a.x"), row(b"b.y")];
        let batch = |command: &[&str]| text(template(command).unwrap().for_items(&items, 4));
        assert_eq!(batch(&["rm", "--", "{}"]), "--|a.x|b.y");
        assert_eq!(batch(&["x", "{}", "-t", "{%}", "o/{.}"]), "a.x|b.y|-t|4|o/a|o/b");
        assert!(!template(&["x", "{%}"]).unwrap().names_items());
        assert_eq!(text(template(&["x", "{%}"]).unwrap().for_items(&[], 4)), "4");
    }

    #[test]
    fn the_program_never_comes_from_the_source() {
        for placeholder in ["{}", "{.}", "{/}", "{//}", "{/.}", "{%}", "{#}"] {
            let refusal =
                TemplateError::PlaceholderInProgram { placeholder: placeholder.to_owned() };
            assert_eq!(template(&[placeholder, "x"]), Err(refusal.clone()));
            assert_eq!(template(&[&format!("./{placeholder}.sh")]), Err(refusal));
        }
        assert_eq!(template(&[]), Err(TemplateError::Empty));
        assert_eq!(template(&["", "x"]), Err(TemplateError::Empty));
    }
}
