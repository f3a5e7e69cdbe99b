//! Looking for secrets in one file at a time.

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

/// How many findings are kept of one file. The others are counted.
const MOST_FINDINGS: usize = 10_000;

/// Rules, ready to be used on any number of files by any number of threads.
#[derive(Debug)]
pub struct Scanner {
    set: RuleSet,
    keywords: Keywords,
    /// How far from a keyword each rule has to look.
    reaches: Vec<Reach>,
    secrecy: Secrecy,
    windows: Windows,
    /// Tells it from other scanners.
    identity: Arc<()>,
}

impl Scanner {
    /// Gets rules ready.
    pub fn new(set: RuleSet, secrecy: Secrecy) -> Result<Self, RulesError> {
        Self::with_windows(set, secrecy, Windows::default())
    }

    /// The same with windows of another size, which changes nothing but speed and memory as long
    /// as no secret is longer than what windows have in common.
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

    /// Begins to look at a file. Its path is that below the source, with `/` between folders.
    pub fn begin<'s>(&'s self, path: &'s [u8], scratch: &'s mut Scratch) -> FileScan<'s> {
        FileScan::new(self, path, scratch)
    }

    /// Looks at a file that is in memory.
    pub fn scan(&self, path: &[u8], bytes: &[u8], scratch: &mut Scratch) -> FileReport {
        let mut scan = self.begin(path, scratch);
        scan.add(bytes);
        scan.finish()
    }

    /// Whether nothing in a file of this path is worth a report. Such a file need not be read.
    #[must_use]
    pub fn is_allowed(&self, path: &[u8]) -> bool {
        self.set.allowlists.iter().any(|allowlist| allowlist.allows_file(path))
    }

    /// What is told of a file that was not read.
    #[must_use]
    pub fn unread(&self, path: &[u8], why: Skipped) -> FileReport {
        let findings = if self.is_allowed(path) { Vec::new() } else { self.by_path(path) };
        FileReport { findings, omitted: 0, skipped: Some(why) }
    }

    /// What a file's path alone gives away.
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
        let global = self.set.allowlists.iter().filter(|allowlist| allowlist.concerns(&rule.id));
        rule.allowlists.iter().chain(global).any(|allowlist| allowlist.allows(path, candidate))
    }
}

/// What a thread uses for one file after the other, so that it need not be made anew.
#[derive(Debug, Default)]
pub struct Scratch {
    window: Vec<u8>,
    rules: Vec<RuleScratch>,
    /// Whose rules they are: what a search needs fits one pattern only.
    scanner: Option<Arc<()>>,
}

/// The same for one rule.
#[derive(Debug, Default)]
struct RuleScratch {
    area: Area,
    /// Where the last match ended, from the beginning of the file.
    reached: u64,
    cache: Option<Cache>,
}

impl Scratch {
    /// One that holds nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gets ready for a file.
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
