//! Searching one file at a time.

mod candidate;
mod matching;
mod reach;
mod window;

use std::sync::Arc;

use matching::Keywords;
use reach::{Area, Reach};
use regex_automata::meta::Cache;

use crate::finding::{FileReport, Finding, Fingerprint, Secrecy, Skipped};
use crate::rules::{Candidate, Rule, RuleSet, RulesError};

pub use window::{FileScan, Windows};

/// Most findings of one file. The rest are counted.
const MOST_FINDINGS: usize = 10_000;

/// Compiled rules. Threads can share a scanner.
#[derive(Debug)]
pub struct Scanner {
    set: RuleSet,
    keywords: Keywords,
    /// Where each rule must be searched, relative to its keywords.
    reaches: Vec<Reach>,
    secrecy: Secrecy,
    windows: Windows,
    /// Identifies the scanner.
    identity: Arc<()>,
}

impl Scanner {
    /// Compiles rules.
    pub fn new(set: RuleSet, secrecy: Secrecy) -> Result<Self, RulesError> {
        Self::with_windows(set, secrecy, Windows::default())
    }

    /// Compiles rules for windows of another size. The findings are the same, as long as no match
    /// is longer than the overlap.
    pub fn with_windows(
        set: RuleSet,
        secrecy: Secrecy,
        windows: Windows,
    ) -> Result<Self, RulesError> {
        let keywords = Keywords::new(&set)?;
        let longest = windows.overlap();
        let reaches = set.rules.iter().map(|rule| Reach::of(rule, longest)).collect();
        Ok(Self { set, keywords, reaches, secrecy, windows, identity: Arc::new(()) })
    }

    /// The rules.
    #[must_use]
    pub const fn rules(&self) -> &RuleSet {
        &self.set
    }

    /// Starts to scan a file. `path` is relative to the source, with `/` between folders.
    pub fn begin<'s>(&'s self, path: &'s [u8], scratch: &'s mut Scratch) -> FileScan<'s> {
        FileScan::new(self, path, scratch)
    }

    /// Scans a file in memory.
    pub fn scan(&self, path: &[u8], bytes: &[u8], scratch: &mut Scratch) -> FileReport {
        let mut scan = self.begin(path, scratch);
        scan.add(bytes);
        scan.finish()
    }

    /// Whether an allowlist excludes a whole file by its path. It need not be read then.
    #[must_use]
    pub fn is_allowed(&self, path: &[u8]) -> bool {
        self.set.allowlists.iter().any(|allowlist| allowlist.allows_file(path))
    }

    /// The report of a file that was not read.
    #[must_use]
    pub fn unread(&self, path: &[u8], why: Skipped) -> FileReport {
        let findings = if self.is_allowed(path) { Vec::new() } else { self.by_path(path) };
        FileReport { findings, omitted: 0, skipped: Some(why) }
    }

    /// The findings of rules that match the path alone.
    fn by_path(&self, path: &[u8]) -> Vec<Finding> {
        let rules = self.set.rules.iter().filter(|rule| rule.pattern.is_none());
        rules.filter_map(|rule| self.path_finding(rule, path)).collect()
    }

    fn path_finding(&self, rule: &Rule, path: &[u8]) -> Option<Finding> {
        if !rule.path.as_ref()?.is_match(path) {
            return None;
        }
        let candidate = Candidate { secret: b"", matched: b"", line: b"" };
        (!self.is_allowed_by(rule, path, candidate)).then(|| Finding {
            rule: rule.id.clone(),
            fingerprint: Fingerprint::new(&rule.id, path),
            span: None,
            secret: String::new(),
            entropy: 0.0,
        })
    }

    fn is_allowed_by(&self, rule: &Rule, path: &[u8], candidate: Candidate<'_>) -> bool {
        let global = self.set.allowlists.iter().filter(|allowlist| allowlist.applies_to(&rule.id));
        rule.allowlists.iter().chain(global).any(|allowlist| allowlist.allows(path, candidate))
    }
}

/// The memory of a thread, reused from file to file.
#[derive(Debug, Default)]
pub struct Scratch {
    window: Vec<u8>,
    rules: Vec<RuleScratch>,
    /// The scanner of `rules`. A cache fits one pattern only.
    scanner: Option<Arc<()>>,
}

/// The reusable memory of one rule.
#[derive(Debug, Default)]
struct RuleScratch {
    area: Area,
    /// End of the last match, as an offset in the file.
    reached: u64,
    cache: Option<Cache>,
}

impl Scratch {
    /// An empty scratch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Prepares for a file.
    fn prepare(&mut self, scanner: &Arc<()>, rules: usize, window: usize) {
        if !self.scanner.as_ref().is_some_and(|it| Arc::ptr_eq(it, scanner)) {
            self.scanner = Some(Arc::clone(scanner));
            self.rules.clear();
            self.rules.resize_with(rules, RuleScratch::default);
        }
        self.window.resize(window, 0);
        for rule in &mut self.rules {
            rule.area.clear();
            rule.reached = 0;
        }
    }
}

#[cfg(test)]
mod tests;
