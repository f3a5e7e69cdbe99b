//! `model [small|large]`: visits every world within the bounds and prints the result.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::process::ExitCode;

use shardwright_specs::{Bounds, Model, Pinned, Report, Rule, Search, Situation, Situations};

fn main() -> ExitCode {
    let size = std::env::args().nth(1).unwrap_or_else(|| "small".to_owned());
    let Some(all) = Bounds::of_size(&size) else {
        eprintln!("unknown size {size}; use small or large");
        return ExitCode::FAILURE;
    };
    let mut seen = Situations::default();
    let mut good = true;
    for bounds in all {
        println!("{bounds}");
        let report = Search::new(Model::new(*bounds)).on_level(print_level).run();
        print(&report);
        seen.extend(report.situations);
        good &= report.counterexamples.is_empty() && is_as_pinned(bounds, &report);
    }
    println!("\nsometimes");
    for situation in Situation::ALL {
        println!("  {} {}", mark(seen.contains(*situation)), situation.sentence());
        good &= seen.contains(*situation);
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A search with another number of states checked another protocol or model.
fn is_as_pinned(bounds: &Bounds, report: &Report) -> bool {
    let found = Pinned { states: report.states, depth: report.depth };
    let is_same = bounds.pinned() == Some(found);
    if !is_same {
        println!("{} found {found:?}, expected {:?}\n", mark(false), bounds.pinned());
    }
    is_same
}

const fn mark(good: bool) -> char {
    if good { '✓' } else { '✗' }
}

/// Prints progress to stderr, apart from the report.
fn print_level(depth: u32, size: u64) {
    eprintln!("depth {depth}: {size} new states");
}

fn print(report: &Report) {
    println!("\nalways");
    for rule in Rule::ALL {
        println!("  {} {}", mark(report.counterexample(*rule).is_none()), rule.sentence());
    }
    for found in &report.counterexamples {
        println!("\na shortest path to a step that breaks this rule: {}", found.rule.sentence());
        for action in &found.actions {
            println!("  {action:?}");
        }
    }
    let Report { states, running, steps, depth, widest, elapsed, .. } = report;
    println!("\n{states} states, {running} of them with a run that has not ended");
    println!("{steps} steps, depth {depth}, widest level {widest}");
    println!("{:.1} s\n", elapsed.as_secs_f64());
}
