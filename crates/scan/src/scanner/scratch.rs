//! What a thread uses for one file after the other.

use std::sync::Arc;

use regex_automata::meta::Cache;

use super::area::Area;

/// What a thread uses for one file after the other, so that it need not be made anew.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) window: Vec<u8>,
    pub(super) rules: Vec<RuleScratch>,
    /// Whose rules they are: what a search needs fits one pattern only.
    scanner: Option<Arc<()>>,
}

/// The same for one rule.
#[derive(Debug, Default)]
pub(super) struct RuleScratch {
    pub(super) area: Area,
    /// Where the last match ended, from the beginning of the file.
    pub(super) reached: u64,
    pub(super) cache: Option<Cache>,
}

impl Scratch {
    /// One that holds nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gets ready for a file.
    pub(super) fn prepare(&mut self, scanner: &Arc<()>, rules: usize, window: usize) {
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
