//! Tables of a sweep.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use crate::tally::Tally;

/// Number of the rarest refusals that are shown.
const RAREST: usize = 10;

/// A table that grows row by row.
#[derive(Debug, Default)]
pub struct Table {
    text: String,
}

impl Table {
    /// Adds a name and a value.
    pub fn row(&mut self, name: &str, value: impl Display) {
        // Writing to a string cannot fail.
        _ = writeln!(self.text, "  {name:<58}{value:>16}");
    }

    /// Adds the simulated time.
    pub fn simulated(&mut self, simulated_ms: u64) {
        let (hours, minutes) = (simulated_ms / 3_600_000, simulated_ms / 60_000 % 60);
        self.row("simulated", format!("{hours} h {minutes} min"));
    }

    /// Adds counts by name.
    pub fn counts<'n>(&mut self, counts: impl IntoIterator<Item = (&'n str, u64)>) {
        counts.into_iter().for_each(|(name, count)| self.row(name, count));
    }

    fn heading(&mut self, title: &str) {
        _ = writeln!(self.text, "{title}");
    }

    /// The table.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

/// Number of times that each refusal was returned, by any operation.
pub(crate) fn refusals(tally: &Tally) -> BTreeMap<&'static str, u64> {
    let mut refusals = BTreeMap::new();
    for ((_, refusal), count) in &tally.refusals {
        *refusals.entry(*refusal).or_default() += count;
    }
    refusals
}

/// The rows of worlds around the in-memory reference.
pub(crate) fn rows_of_protocol(tally: &Tally, table: &mut Table) {
    let percent = |count: u64| format!("{count} ({} %)", count * 100 / tally.steps.max(1));
    table.row("seeds", tally.seeds);
    table.row("steps", tally.steps);
    table.row("acts of chaos", tally.chaos_steps);
    table.simulated(tally.simulated_ms);
    table.row("runs ended", tally.runs);
    table.row("accepted", percent(tally.accepted_steps));
    table.row("refused", percent(tally.refused_steps));
    table.row("in ended runs", percent(tally.ended_steps));
    table.heading("faults");
    table.counts(tally.faults.iter().map(|(fault, count)| (fault.words(), *count)));
    table.heading("refusals");
    table.counts(refusals(tally));
    table.heading("infrastructure failures, fabricated between sender and system");
    let mut failures: BTreeMap<&str, u64> = BTreeMap::new();
    for ((_, failure), count) in &tally.failures {
        *failures.entry(failure).or_default() += count;
    }
    table.counts(failures);
    table.heading("rarest refusals that a sweep must see");
    let mut rarest: Vec<_> = tally.refusals.iter().map(|(key, count)| (count, key)).collect();
    rarest.sort_unstable();
    for (count, (operation, refusal)) in rarest.into_iter().take(RAREST) {
        table.row(&format!("{operation}: {refusal}"), count);
    }
    table.heading("verdict");
}
