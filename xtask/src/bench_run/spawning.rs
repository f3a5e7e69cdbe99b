//! A process per item.

use anyhow::Result;

use super::document::{Section, table};
use super::plot::{Bar, Panel};
use super::turns::{Contender, Taken, take_turns};
use super::workplace::{Workplace, numbers, reading, repeated};

const ITEMS: usize = 3_000;
const ROUNDS: usize = 5;
/// The rounds of contenders that are many times slower.
const SLOW_ROUNDS: usize = 2;
const SLOTS: usize = 2;
const AIM: f64 = 1.2;

pub(super) fn measure(place: &Workplace) -> Result<Section> {
    let folder = place.fresh()?;
    let (rows, tasks) = (folder.join("rows"), folder.join("tasks"));
    numbers(&rows, ITEMS)?;
    repeated(&tasks, "/bin/true", ITEMS)?;
    let slots = SLOTS.to_string();
    let ours = || {
        let mut command = place.shardwright(&place.fresh()?);
        command.args(["run", "--workers", &slots, "--lines"]).arg(&rows);
        command.args(["--", "/bin/true", "{}"]);
        Ok(command)
    };
    let xargs = || Ok(reading(&rows, "xargs", &["-n1", "-P", &slots, "/bin/true"]));
    let parallel = || Ok(reading(&rows, "parallel", &["-j", &slots, "/bin/true", "{}"]));
    let taken = take_turns(
        ROUNDS,
        vec![
            Contender::program("shardwright run", ours),
            Contender::program("xargs -n1 -P2", xargs),
            Contender::new("HyperQueue", || place.hyperqueue(SLOTS, &tasks)).at_most(SLOW_ROUNDS),
            Contender::program("GNU parallel -j2", parallel).at_most(SLOW_ROUNDS),
        ],
    )?;
    let xargs = taken.get(1).map_or(f64::NAN, |taken| taken.seconds());
    let rows: Vec<Vec<String>> = taken
        .iter()
        .map(|taken| {
            let (seconds, range) = (taken.seconds(), taken.range());
            let ratio = format!("{:.2}", seconds / xargs);
            vec![taken.name.clone(), format!("{seconds:.2} s"), range, ratio]
        })
        .collect();
    let text = format!(
        "**A process per item**: {ITEMS} × `/bin/true`, {SLOTS} at a time. The aim is at most \
         {AIM} times `xargs`. Ours also stores exit code, time and output of each item, \
         durably.\n\n{}",
        table(&["", "time", "range", "time / xargs"], &rows)
    );
    let bar = |(index, taken): (usize, &Taken)| Bar {
        label: taken.name.clone(),
        value: taken.seconds(),
        is_ours: index == 0,
    };
    let panel = Panel {
        title: format!("{ITEMS} × /bin/true, a process per item, {SLOTS} at a time"),
        unit: " s",
        bars: taken.iter().enumerate().map(bar).collect(),
        aim: Some(AIM * xargs),
    };
    Ok(Section { text, panels: vec![panel] })
}
