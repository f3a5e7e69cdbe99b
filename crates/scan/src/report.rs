//! Findings of many files, grouped by secret.

mod json;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::str::FromStr;

use crate::finding::{FileReport, Fingerprint, Skipped, Span};
use crate::rules::RuleSet;

/// Most locations of one secret. The rest are counted.
const MOST_LOCATIONS: usize = 1_000;
/// Most unreadable files that are named.
const MOST_UNREAD: usize = 1_000;

/// The format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text for a terminal.
    #[default]
    Text,
    /// A JSON object per finding and line.
    Jsonl,
    /// SARIF 2.1.0, for tools that show findings beside code.
    Sarif,
}

impl Format {
    /// Its name on the command line.
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

/// Findings of many files. Memory grows with distinct secrets, not with files.
#[derive(Debug)]
pub struct Report<'r> {
    rules: &'r RuleSet,
    found: Vec<Group>,
    by_fingerprint: BTreeMap<Fingerprint, usize>,
    totals: Totals,
    unread: Vec<Vec<u8>>,
}

/// A secret and its locations.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The rule that found it.
    pub rule: String,
    /// The fingerprint of the secret.
    pub fingerprint: Fingerprint,
    /// The secret, redacted or not.
    pub secret: String,
    /// Bits per byte of the secret.
    pub entropy: f32,
    /// Where it was found, in the order of files.
    pub locations: Vec<FoundAt>,
    /// Number of further locations.
    pub more: u64,
}

/// A location of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundAt {
    /// The file.
    pub path: Vec<u8>,
    /// The part of the file. None if the file itself is the finding.
    pub span: Option<Span>,
}

/// Counts over all files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Locations of secrets.
    pub locations: u64,
    /// Findings beyond the limit of their file, which are not among the locations.
    pub omitted: u64,
    /// Files that are not text.
    pub binary: u64,
    /// Files that an allowlist excludes.
    pub allowed: u64,
    /// Files that vanished before they were read.
    pub vanished: u64,
    /// Files that may not be read.
    pub unreadable: u64,
}

impl<'r> Report<'r> {
    /// An empty report.
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

    /// Adds the report of a file of `bytes` bytes.
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
            self.totals.locations += 1;
            let new = self.found.len();
            let index = *self.by_fingerprint.entry(finding.fingerprint).or_insert(new);
            if index == new {
                self.found.push(Group {
                    rule: finding.rule,
                    fingerprint: finding.fingerprint,
                    secret: finding.secret,
                    entropy: finding.entropy,
                    locations: Vec::new(),
                    more: 0,
                });
            }
            let Some(group) = self.found.get_mut(index) else { continue };
            if group.locations.len() < MOST_LOCATIONS {
                group.locations.push(FoundAt { path: path.to_vec(), span: finding.span });
            } else {
                group.more += 1;
            }
        }
    }

    /// The findings, in the order of their first location.
    #[must_use]
    pub fn found(&self) -> &[Group] {
        &self.found
    }

    /// The counts.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The named unreadable files.
    #[must_use]
    pub fn unread(&self) -> &[Vec<u8>] {
        &self.unread
    }

    /// Writes the report. `base` is the URL of the source, with a trailing slash.
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

/// A path as a relative URI reference, percent-encoded.
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

/// Locations of one secret in a text report.
const MOST_SHOWN: usize = 20;

/// Writes a report as text.
fn write_text(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    for group in &report.found {
        let description = report.rules.rule(&group.rule).map_or("", |rule| rule.description());
        writeln!(out, "{}: {description}", plain(group.rule.as_bytes()))?;
        if !group.secret.is_empty() {
            let (secret, entropy) = (plain(group.secret.as_bytes()), group.entropy);
            writeln!(out, "  {secret}  entropy {entropy:.2}  fingerprint {}", group.fingerprint)?;
        }
        for location in group.locations.iter().take(MOST_SHOWN) {
            writeln!(out, "  {}", shown(location))?;
        }
        let more = group.locations.len().saturating_sub(MOST_SHOWN) as u64 + group.more;
        if more > 0 {
            writeln!(out, "  and in {more} more locations")?;
        }
    }
    Ok(())
}

fn shown(location: &FoundAt) -> String {
    let path = plain(&location.path);
    match location.span {
        Some(span) => format!("{path}:{}:{}", span.line, span.column),
        None => path,
    }
}

/// Text with control characters escaped.
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
