//! Parses the output of TLC.

use std::collections::BTreeSet;
use std::time::Duration;

/// The number of lines of a counterexample to print. The whole output is in a file of the run.
const LINES_SHOWN: usize = 200;

/// The verdict of TLC on a specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Every property holds in every state within the bounds.
    Holds,
    /// A property of states or steps, by name, does not hold.
    Violated(String),
    /// A temporal property does not hold. TLC does not name it.
    TemporalViolated,
    /// No verdict: the module does not parse, or an expression has no value.
    Broken,
}

/// One run of TLC.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) verdict: Verdict,
    pub(crate) generated: u64,
    pub(crate) distinct: u64,
    pub(crate) depth: u64,
    /// Names that must be reached somewhere, and those that were.
    pub(crate) wanted: BTreeSet<String>,
    pub(crate) seen: BTreeSet<String>,
    pub(crate) elapsed: Duration,
    output: String,
}

impl Report {
    /// Parses the output of a run and its time.
    pub(crate) fn read(output: String, elapsed: Duration) -> Self {
        let counts = output.lines().find(|line| line.ends_with(", 0 states left on queue."));
        let depth = "The depth of the complete state graph search is ";
        Self {
            verdict: verdict(&output),
            generated: counts.map_or(0, |line| number_before(line, " states generated")),
            distinct: counts.map_or(0, |line| number_before(line, " distinct states found")),
            depth: output
                .lines()
                .find_map(|line| line.strip_prefix(depth))
                .map_or(0, |rest| number_before(rest, ".")),
            wanted: quoted(&output, "wanted: "),
            seen: quoted(&output, "witness: "),
            elapsed,
            output,
        }
    }

    /// States, depth and time in one line.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{} states generated, {} distinct, depth {}, {:.1} s",
            self.generated,
            self.distinct,
            self.depth,
            self.elapsed.as_secs_f64()
        )
    }

    /// The output from the first error on, or its end if there is none.
    pub(crate) fn error_text(&self) -> String {
        let lines: Vec<&str> = self.output.lines().collect();
        let error = lines.iter().position(|line| {
            line.starts_with("Error:") || line.starts_with("***") || line.contains("Exception")
        });
        let first = error.unwrap_or_else(|| lines.len().saturating_sub(LINES_SHOWN));
        let shown: Vec<&str> = lines.into_iter().skip(first).take(LINES_SHOWN).collect();
        shown.join("\n")
    }
}

fn verdict(output: &str) -> Verdict {
    for line in output.lines() {
        if line == "Model checking completed. No error has been found." {
            return Verdict::Holds;
        }
        let Some(error) = line.strip_prefix("Error: ") else { continue };
        if error.starts_with("Temporal properties were violated") {
            return Verdict::TemporalViolated;
        }
        for kind in ["Invariant ", "Action property "] {
            if let Some((name, _)) =
                error.strip_prefix(kind).and_then(|rest| rest.split_once(" is violated"))
            {
                return Verdict::Violated(name.to_owned());
            }
        }
        return Verdict::Broken;
    }
    Verdict::Broken
}

/// The digits right before `what`. TLC may group them by commas.
fn number_before(line: &str, what: &str) -> u64 {
    let Some((before, _)) = line.split_once(what) else { return 0 };
    let digits = before.rsplit(' ').next().unwrap_or_default().replace(',', "");
    digits.parse().unwrap_or_default()
}

fn quoted(output: &str, what: &str) -> BTreeSet<String> {
    let inner = output.lines().filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'));
    inner.filter_map(|text| text.strip_prefix(what)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(output: &str) -> Report {
        Report::read(output.to_owned(), Duration::from_millis(1_500))
    }

    #[test]
    fn a_run_without_errors_holds_and_is_counted() {
        let report = report(
            "\"wanted: park\"\n\"witness: park\"\n\
             Progress(6): 61 states generated, 30 distinct states found, 10 states left on queue.\n\
             Model checking completed. No error has been found.\n\
             291301 states generated, 27,693 distinct states found, 0 states left on queue.\n\
             The depth of the complete state graph search is 20.\n",
        );
        assert_eq!(report.verdict, Verdict::Holds);
        assert_eq!((report.generated, report.distinct, report.depth), (291_301, 27_693, 20));
        assert_eq!(report.wanted, BTreeSet::from(["park".to_owned()]));
        assert_eq!(report.seen, report.wanted);
        let summary = "291301 states generated, 27693 distinct, depth 20, 1.5 s";
        assert_eq!(report.summary(), summary);
    }

    #[test]
    fn a_violated_property_is_named() {
        for (line, name) in [
            ("Error: Invariant LeavesTile is violated.", "LeavesTile"),
            ("Error: Invariant TypeOK is violated by the initial state:", "TypeOK"),
            ("Error: Action property FencesRise is violated.", "FencesRise"),
        ] {
            assert_eq!(report(line).verdict, Verdict::Violated(name.to_owned()), "{line}");
        }
        let temporal = "Error: Temporal properties were violated.\n";
        assert_eq!(report(temporal).verdict, Verdict::TemporalViolated);
    }

    #[test]
    fn an_error_of_another_kind_is_no_verdict() {
        for output in [
            "",
            "Error: Parsing or semantic analysis failed.",
            "Error: TLC threw an unexpected exception.\nError: Invariant A is violated.",
            "Progress(6): 610 states generated, 301 distinct states found, 221 states left.",
        ] {
            assert_eq!(report(output).verdict, Verdict::Broken, "{output}");
        }
    }

    #[test]
    fn the_error_is_shown_from_its_first_line() {
        let report = report("TLC2\nError: Invariant A is violated.\nState 1:\n");
        assert_eq!(report.error_text(), "Error: Invariant A is violated.\nState 1:");
    }
}
