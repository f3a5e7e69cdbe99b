//! The part of `docs/benchmarks.md` that this bench writes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::plot::{self, Panel};

const DOCUMENT: &str = "docs/benchmarks.md";
const PICTURE: &str = "docs/pictures/bench-run.svg";
/// How the document shows the picture.
const SHOWN: &str = "![The measurements as bars](pictures/bench-run.svg)\n\n";
const BEGIN: &str = "<!-- written by cargo xtask bench-run: begin -->\n";
const END: &str = "<!-- written by cargo xtask bench-run: end -->\n";

/// The text and pictures of one row.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// In Markdown.
    pub(super) text: String,
    pub(super) panels: Vec<Panel>,
}

/// A table, with a head.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(head.to_vec());
    text.push_str(&line(head.iter().map(|_| "---").collect()).replace(" --- ", "---"));
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    text
}

/// Writes all sections into the document, and the picture beside it.
pub(super) fn write(root: &Path, sections: &[Section]) -> Result<()> {
    let panels: Vec<Panel> =
        sections.iter().flat_map(|section| section.panels.iter().cloned()).collect();
    let (document, picture) = (root.join(DOCUMENT), root.join(PICTURE));
    let old = fs::read_to_string(&document).with_context(|| document.display().to_string())?;
    let texts: Vec<&str> = sections.iter().map(|section| section.text.as_str()).collect();
    let new = replaced(&old, &format!("{SHOWN}{}", texts.join("\n")))
        .with_context(|| format!("{} lacks the marks {BEGIN} … {END}", document.display()))?;
    fs::write(&picture, plot::draw(&panels))?;
    fs::write(&document, new)?;
    println!("written to {} and {}", document.display(), picture.display());
    Ok(())
}

/// The document with a new text between the marks.
fn replaced(document: &str, text: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{text}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let old = format!("before\n{BEGIN}old\n{END}after\n");
        let new = replaced(&old, "new").unwrap();
        assert_eq!(new, format!("before\n{BEGIN}\nnew\n{END}after\n"));
        assert_eq!(replaced(&new, "new").unwrap(), new);
        assert_eq!(replaced("no marks", "new"), None);
    }

    #[test]
    fn the_document_has_the_marks() {
        let document = include_str!("../../../docs/benchmarks.md");
        assert!(replaced(document, "").is_some());
    }

    #[test]
    fn a_table_has_a_line_per_row() {
        let made = table(&["", "time"], &[vec!["ours".to_owned(), "1 s".to_owned()]]);
        assert_eq!(made, "|  | time |\n|---|---|\n| ours | 1 s |\n");
    }
}
