//! What the demo prints: a line per second and per event, and the verdict.

use std::time::Duration;

use shardwright_demo::{Tally, Verdict};

use crate::commands::print_json;
use crate::console::outln;

/// The calls and moves between two events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) took: Duration,
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) slowest: Duration,
    pub(crate) moved: u64,
}

/// The counters at the start of a phase.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    at: Duration,
    calls: usize,
    failed: u64,
    moved: u64,
}

impl Mark {
    pub(crate) fn new(at: Duration, tally: &Tally, moved: u64) -> Self {
        Self { at, calls: tally.latencies.len(), failed: tally.failed, moved }
    }

    /// The phase from this mark to another.
    pub(crate) fn to(self, end: Self, tally: &Tally, name: &'static str) -> Phase {
        let latencies = tally.latencies.get(self.calls..end.calls).unwrap_or_default();
        Phase {
            name,
            took: end.at.saturating_sub(self.at),
            calls: latencies.len() as u64,
            failed: end.failed - self.failed,
            slowest: latencies.iter().max().copied().unwrap_or_default(),
            moved: end.moved - self.moved,
        }
    }
}

/// Writes the report, as text or JSON.
pub(crate) struct Reporter {
    pub(crate) json: bool,
}

impl Reporter {
    /// Reports the start of a phase.
    pub(crate) fn begins(&self, name: &str, what: &str) -> anyhow::Result<()> {
        if self.json {
            return print_json(
                &serde_json::json!({ "event": "phase", "phase": name, "what": what }),
            );
        }
        outln!("-- {name}: {what}");
        Ok(())
    }

    /// Reports one second.
    pub(crate) fn second(&self, at: Duration, nodes: usize, since: &Phase) -> anyhow::Result<()> {
        let Phase { name, calls, failed, slowest, moved, .. } = since;
        if self.json {
            return print_json(&serde_json::json!({
                "event": "second", "at_ms": ms(at), "phase": name, "nodes": nodes, "calls": calls,
                "failed": failed, "slowest_ms": ms(*slowest), "moved": moved,
            }));
        }
        outln!(
            "{:5.1} s  {name:9}  {nodes} nodes  {calls:5} calls  {failed:4} failed  slowest \
             {:5} ms  {moved:4} shards moved",
            at.as_secs_f64(),
            ms(*slowest)
        );
        Ok(())
    }

    /// Reports the table of phases, and the verdict.
    pub(crate) fn end(
        &self,
        phases: &[Phase],
        tally: &Tally,
        total: i128,
        verdict: &Verdict,
    ) -> anyhow::Result<()> {
        if self.json {
            return print_json(&as_json(phases, tally, total, verdict));
        }
        outln!("\nphase      seconds    calls   failed  slowest ms    moved");
        for one in phases {
            let Phase { name, took, calls, failed, slowest, moved } = one;
            let (seconds, slowest) = (took.as_secs_f64(), ms(*slowest));
            outln!("{name:9} {seconds:8.1} {calls:8} {failed:8} {slowest:11} {moved:8}");
        }
        let (p50, p99) = (percentile(tally, 50), percentile(tally, 99));
        outln!("\ncalls        {} made, p50 {p50} ms, p99 {p99} ms", tally.begun);
        let slowest_second = slowest_second(tally);
        outln!("rate         at least {slowest_second} calls in each second");
        outln!(
            "increments   {} acknowledged, {} with unknown outcome, {total} stored",
            tally.acknowledged,
            tally.unknown
        );
        for (name, recovery) in &verdict.recoveries {
            outln!("{name:12} last failed call {} ms after the event", ms(*recovery));
        }
        outln!("failed       {} calls outside of faults", verdict.failed_without_fault);
        outln!("lost         {} acknowledged increments", verdict.lost);
        for broken in &verdict.broken {
            outln!("broken: {broken}");
        }
        if verdict.broken.is_empty() {
            outln!("every promise was kept");
        }
        Ok(())
    }
}

fn as_json(phases: &[Phase], tally: &Tally, total: i128, verdict: &Verdict) -> serde_json::Value {
    let phase = |one: &Phase| {
        serde_json::json!({
            "phase": one.name, "took_ms": ms(one.took), "calls": one.calls, "failed": one.failed,
            "slowest_ms": ms(one.slowest), "moved": one.moved,
        })
    };
    let recovery = |(name, time): &(&str, Duration)| {
        let time = ms(*time);
        serde_json::json!({ "fault": name, "recovered_after_ms": time })
    };
    let total = i64::try_from(total).unwrap_or(i64::MAX);
    let lost = i64::try_from(verdict.lost).unwrap_or(i64::MAX);
    serde_json::json!({
        "event": "end", "phases": phases.iter().map(phase).collect::<Vec<_>>(),
        "calls": tally.begun, "fewest_in_a_second": slowest_second(tally),
        "acknowledged": tally.acknowledged, "unknown": tally.unknown,
        "stored": total, "lost": lost, "failed_without_fault": verdict.failed_without_fault,
        "p50_ms": percentile(tally, 50), "p99_ms": percentile(tally, 99),
        "recoveries": verdict.recoveries.iter().map(recovery).collect::<Vec<_>>(),
        "broken": verdict.broken,
    })
}

/// The fewest calls in a complete second.
fn slowest_second(tally: &Tally) -> u64 {
    let whole = tally.begun_by_second.len().saturating_sub(1);
    tally.begun_by_second.iter().take(whole).min().copied().unwrap_or_default()
}

fn percentile(tally: &Tally, percent: usize) -> u64 {
    let mut sorted = tally.latencies.clone();
    sorted.sort_unstable();
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0, |time| ms(*time))
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
