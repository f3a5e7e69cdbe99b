//! `model [small|large]`: visits every world within the bounds and prints what it found.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::process::ExitCode;

use shardwright_specs::{Bounds, Model, Pinned, Report, Rule, Search, Sight, Sights};

fn main() -> ExitCode {
    let size = std::env::args().nth(1).unwrap_or_else(|| "small".to_owned());
    let Some(all) = Bounds::of_size(&size) else {
        eprintln!("there is no size {size}; there are small and large");
        return ExitCode::FAILURE;
    };
    let mut seen = Sights::default();
    let mut good = true;
    for bounds in all {
        println!("{bounds}");
        let report = Search::new(Model::new(*bounds)).on_level(print_level).run();
        print(&report);
        seen.extend(report.sights);
        good &= report.counterexamples.is_empty() && is_as_pinned(bounds, &report);
    }
    println!("\nsometimes");
    for sight in Sight::ALL {
        println!("  {} {}", mark(seen.contains(*sight)), sight.sentence());
        good &= seen.contains(*sight);
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A search that came to an end too soon, or found more than there was, proves something else.
fn is_as_pinned(bounds: &Bounds, report: &Report) -> bool {
    let found = Pinned { states: report.states, depth: report.depth };
    let is_same = bounds.pinned() == Some(found);
    if !is_same {
        println!("{} found {found:?}, pinned is {:?}\n", mark(false), bounds.pinned());
    }
    is_same
}

const fn mark(good: bool) -> char {
    if good { '✓' } else { '✗' }
}

/// Progress goes apart from the report, which can be kept.
fn print_level(depth: u32, size: u64) {
    eprintln!("depth {depth}: {size} new states");
}

fn print(report: &Report) {
    println!("\nalways");
    for rule in Rule::ALL {
        println!("  {} {}", mark(report.counterexample(*rule).is_none()), rule.sentence());
    }
    for found in &report.counterexamples {
        println!("\na shortest way to break the rule that {}:", found.rule.sentence());
        for action in &found.actions {
            println!("  {action:?}");
        }
    }
    let Report { states, running, steps, depth, widest, elapsed, .. } = report;
    println!("\n{states} states, {running} of them of a run that has not ended");
    println!("{steps} steps, depth {depth}, widest level {widest}");
    println!("{:.1} s\n", elapsed.as_secs_f64());
}
