//! Items fed to persistent programs and library jobs.

use std::process::Command;

use anyhow::Result;

use super::document::{Section, table};
use super::plot::{Bar, Panel};
use super::turns::{Contender, Taken, take_turns};
use super::workplace::{Workplace, numbers, reading, thousands};

const ITEMS: usize = 1_000_000;
const ROUNDS: usize = 3;
/// For each core.
const AIM: f64 = 100_000.0;
/// The items of a process, for tools that start one per batch.
const BATCH: &str = "500";

pub(super) fn measure(place: &Workplace) -> Result<Section> {
    let rows = place.fresh()?.join("rows");
    numbers(&rows, ITEMS)?;
    let (cores, items) = (place.cores().to_string(), ITEMS.to_string());
    let run = |how: &[&str]| {
        let mut command = place.shardwright(&place.fresh()?);
        command.args(["run", "--workers", &cores, "--lines"]).arg(&rows).args(how);
        Ok(command)
    };
    let persistent = || {
        let mut command = run(&["--persistent", "--in-flight", "1024", "--"])?;
        command.arg(place.example("persistent_worker"));
        Ok(command)
    };
    let library = || {
        let mut command = Command::new(place.example("custom_source"));
        command.arg(place.fresh()?).arg(&items);
        Ok(command)
    };
    let batches = || run(&["--batch", BATCH, "--", "/bin/true"]);
    let xargs = || Ok(reading(&rows, "xargs", &["-n", BATCH, "-P", &cores, "/bin/true"]));
    let taken = take_turns(
        ROUNDS,
        vec![
            Contender::program("library: `examples/custom_source.rs`", library),
            Contender::program("`run --persistent --in-flight 1024`", persistent),
            Contender::program("`run --batch 500`", batches),
            Contender::program("`xargs -n500 -P2`, without results", xargs),
        ],
    )?;
    Ok(section(&taken, place.cores()))
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn section(taken: &[Taken], cores: usize) -> Section {
    let per_core = |taken: &Taken| ITEMS as f64 / taken.seconds() / cores as f64;
    let row = |taken: &Taken| {
        vec![
            taken.name.clone(),
            format!("{:.2} s", taken.seconds()),
            taken.range(),
            rounded(per_core(taken)),
            rounded(ITEMS as f64 / taken.processor_seconds()),
        ]
    };
    let rows: Vec<Vec<String>> = taken.iter().map(row).collect();
    let head =
        ["", "time", "range", "items per second and core", "items per second of processor time"];
    let text = format!(
        "**Items fed to a running program or function**: {} items without work, from start to end, \
         with durable cursors, results and (except for the library) a receipt. The aim is {} per \
         second and core. Programs share the {cores} cores with us.\n\n{}",
        thousands(ITEMS),
        rounded(AIM),
        table(&head, &rows)
    );
    let bar = |taken: &Taken| Bar {
        label: taken.name.replace('`', ""),
        value: per_core(taken) / 1_000.0,
        is_ours: !taken.name.contains("xargs"),
    };
    let panel = Panel {
        title: "No-op items per second and core, in thousands (more is better)".to_owned(),
        unit: "",
        bars: taken.iter().map(bar).collect(),
        aim: Some(AIM / 1_000.0),
    };
    Section { text, panels: vec![panel] }
}

/// Rounded to hundreds, because more digits mean nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of items fits, and a conversion saturates"
)]
fn rounded(number: f64) -> String {
    thousands((number / 100.0).round() as usize * 100)
}
