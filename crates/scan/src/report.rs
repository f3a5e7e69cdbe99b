//! What was found in many files, each secret once.

mod json;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::str::FromStr;

use crate::finding::{FileReport, Fingerprint, Skipped, Span};
use crate::rules::RuleSet;

/// Most places that are kept of one secret. The others are counted.
const MOST_PLACES: usize = 1_000;
/// Most files that could not be read whose names are kept.
const MOST_UNREAD: usize = 1_000;

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// A JSON object for each finding, on a line of its own.
    Jsonl,
    /// SARIF 2.1.0, for tools that show findings beside code.
    Sarif,
}

impl Format {
    /// What it is called on command lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Jsonl => "jsonl",
            Self::Sarif => "sarif",
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Text, Self::Jsonl, Self::Sarif];
        let known = || format!("`{text}` is not one of `text`, `jsonl` and `sarif`");
        all.into_iter().find(|format| format.as_str() == text).ok_or_else(known)
    }
}

/// What was found in many files. Memory grows with different secrets, not with files.
#[derive(Debug)]
pub struct Report<'r> {
    rules: &'r RuleSet,
    found: Vec<Group>,
    by_fingerprint: BTreeMap<Fingerprint, usize>,
    totals: Totals,
    unread: Vec<Vec<u8>>,
}

/// A secret and everywhere it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The rule that found it.
    pub rule: String,
    /// What it is told from others by.
    pub fingerprint: Fingerprint,
    /// The secret, as far as it is shown.
    pub secret: String,
    /// Bits per byte of the secret.
    pub entropy: f32,
    /// Where it is, in the order of files.
    pub places: Vec<FoundAt>,
    /// In how many more places it is.
    pub more: u64,
}

/// A place of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundAt {
    /// The file.
    pub path: Vec<u8>,
    /// Where in it; none if it is the file itself.
    pub span: Option<Span>,
}

/// Everything, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Places of secrets.
    pub places: u64,
    /// Places of which nothing else is known, because their files have too many.
    pub omitted: u64,
    /// Files that are not text.
    pub binary: u64,
    /// Files that an allowlist names.
    pub allowed: u64,
    /// Files that were gone when they were to be read.
    pub vanished: u64,
    /// Files that may not be read.
    pub unreadable: u64,
}

impl<'r> Report<'r> {
    /// One in which nothing is found yet.
    #[must_use]
    pub fn new(rules: &'r RuleSet) -> Self {
        Self {
            rules,
            found: Vec::new(),
            by_fingerprint: BTreeMap::new(),
            totals: Totals::default(),
            unread: Vec::new(),
        }
    }

    /// Takes in what was found in a file of so many bytes.
    pub fn add(&mut self, path: &[u8], bytes: u64, file: FileReport) {
        self.totals.files += 1;
        self.totals.bytes = self.totals.bytes.saturating_add(bytes);
        self.totals.omitted += file.omitted;
        match file.skipped {
            Some(Skipped::Binary) => self.totals.binary += 1,
            Some(Skipped::Allowed) => self.totals.allowed += 1,
            Some(Skipped::Vanished) => self.totals.vanished += 1,
            Some(Skipped::Unreadable) => {
                self.totals.unreadable += 1;
                if self.unread.len() < MOST_UNREAD {
                    self.unread.push(path.to_vec());
                }
            }
            None => {}
        }
        for finding in file.findings {
            self.totals.places += 1;
            let new = self.found.len();
            let index = *self.by_fingerprint.entry(finding.fingerprint).or_insert(new);
            if index == new {
                self.found.push(Group {
                    rule: finding.rule,
                    fingerprint: finding.fingerprint,
                    secret: finding.secret,
                    entropy: finding.entropy,
                    places: Vec::new(),
                    more: 0,
                });
            }
            let Some(group) = self.found.get_mut(index) else { continue };
            if group.places.len() < MOST_PLACES {
                group.places.push(FoundAt { path: path.to_vec(), span: finding.span });
            } else {
                group.more += 1;
            }
        }
    }

    /// The findings, by where each was first seen.
    #[must_use]
    pub fn found(&self) -> &[Group] {
        &self.found
    }

    /// Everything, counted.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Files that may not be read, as many as are kept.
    #[must_use]
    pub fn unread(&self) -> &[Vec<u8>] {
        &self.unread
    }

    /// Writes it. `base` is the address below which the files are, with a slash at its end.
    pub fn write(&self, format: Format, base: &str, out: &mut impl Write) -> io::Result<()> {
        match format {
            Format::Text => write_text(self, out),
            Format::Jsonl => self.found.iter().try_for_each(|group| {
                let line = self.line(group);
                writeln!(out, "{line}")
            }),
            Format::Sarif => {
                serde_json::to_writer_pretty(&mut *out, &json::document(self, base))?;
                writeln!(out)
            }
        }
    }
}

/// The address of a file below another, as a relative reference.
#[must_use]
pub fn uri(path: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut uri = String::with_capacity(path.len());
    for &byte in path {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            other => write!(uri, "%{other:02X}").unwrap_or_default(),
        }
    }
    uri
}

/// How many places of one secret people want to read.
const MOST_SHOWN: usize = 20;

/// Writes a report for people.
fn write_text(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    for group in &report.found {
        let description = report.rules.rule(&group.rule).map_or("", |rule| rule.description());
        writeln!(out, "{}: {description}", plain(group.rule.as_bytes()))?;
        if !group.secret.is_empty() {
            let (secret, entropy) = (plain(group.secret.as_bytes()), group.entropy);
            writeln!(out, "  {secret}  entropy {entropy:.2}  fingerprint {}", group.fingerprint)?;
        }
        for place in group.places.iter().take(MOST_SHOWN) {
            writeln!(out, "  {}", shown(place))?;
        }
        let more = group.places.len().saturating_sub(MOST_SHOWN) as u64 + group.more;
        if more > 0 {
            writeln!(out, "  and in {more} more places")?;
        }
    }
    Ok(())
}

fn shown(place: &FoundAt) -> String {
    let path = plain(&place.path);
    match place.span {
        Some(span) => format!("{path}:{}:{}", span.line, span.column),
        None => path,
    }
}

/// Text with nothing in it that a terminal obeys.
fn plain(bytes: &[u8]) -> String {
    let mut plain = String::new();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() {
                plain.extend(letter.escape_default());
            } else {
                plain.push(letter);
            }
        }
        plain.push_str(&chunk.invalid().escape_ascii().to_string());
    }
    plain
}

#[cfg(test)]
mod tests;
