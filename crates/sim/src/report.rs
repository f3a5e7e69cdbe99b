//! Tables for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::sweep::Sweep;

/// How many of the refusals that were seen least are shown.
const RAREST: usize = 10;

/// The table at the end of a sweep.
#[must_use]
pub fn table(sweep: &Sweep) -> String {
    let tally = &sweep.tally;
    let mut text = String::new();
    let hours = tally.simulated_ms / 3_600_000;
    let minutes = tally.simulated_ms / 60_000 % 60;
    let share = |count: u64| count * 100 / tally.steps.max(1);
    row(&mut text, "seeds", tally.seeds);
    row(&mut text, "steps", tally.steps);
    row(&mut text, "of which in chaos", tally.chaos_steps);
    row(&mut text, "simulated", format!("{hours} h {minutes} min"));
    row(&mut text, "runs ended", tally.runs);
    row(&mut text, "accepted", percent(tally.accepted_steps, share(tally.accepted_steps)));
    row(&mut text, "refused", percent(tally.refused_steps, share(tally.refused_steps)));
    row(&mut text, "in ended runs", percent(tally.ended_steps, share(tally.ended_steps)));
    heading(&mut text, "faults");
    for (fault, count) in &tally.faults {
        row(&mut text, fault.words(), count);
    }
    heading(&mut text, "refusals");
    let mut refusals: BTreeMap<&str, u64> = BTreeMap::new();
    for ((_, refusal), count) in &tally.refusals {
        *refusals.entry(refusal).or_default() += count;
    }
    for (refusal, count) in &refusals {
        row(&mut text, refusal, count);
    }
    heading(&mut text, "failures of the machinery below, made up between sender and system");
    let mut failures: BTreeMap<&str, u64> = BTreeMap::new();
    for ((_, failure), count) in &tally.failures {
        *failures.entry(failure).or_default() += count;
    }
    for (failure, count) in &failures {
        row(&mut text, failure, count);
    }
    heading(&mut text, "rarest refusals, which a sweep still has to see");
    let mut rarest: Vec<_> = tally.refusals.iter().map(|(key, count)| (count, key)).collect();
    rarest.sort_unstable();
    for (count, (operation, refusal)) in rarest.into_iter().take(RAREST) {
        row(&mut text, &format!("{operation}: {refusal}"), count);
    }
    heading(&mut text, "verdict");
    row(&mut text, "violations", sweep.failures.len());
    text
}

fn percent(count: u64, share: u64) -> String {
    format!("{count} ({share} %)")
}

fn heading(text: &mut String, title: &str) {
    // Writing to a string cannot fail.
    _ = writeln!(text, "{title}");
}

fn row(text: &mut String, name: &str, value: impl std::fmt::Display) {
    _ = writeln!(text, "  {name:<58}{value:>16}");
}
