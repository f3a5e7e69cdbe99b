//! The memory of a run.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::document::{Section, table};
use super::plot::{Bar, Panel};
use super::workplace::{Workplace, numbers, thousands};

const LINES: [usize; 2] = [1_000_000, 10_000_000];
const AIM_MIB: f64 = 64.0;
/// The interval between two reads of the process status. The high-water mark never falls, so only
/// growth after the last read is missed.
const READ_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn measure(place: &Workplace) -> Result<Section> {
    let mut rows = Vec::new();
    let mut bars = Vec::new();
    for lines in LINES {
        let mib = resident(place, lines)?;
        println!("  {lines} lines: {mib:.1} MiB");
        rows.push(vec![format!("{} lines", thousands(lines)), format!("{mib:.1} MiB")]);
        let label = format!("shardwright run, {} lines", thousands(lines));
        bars.push(Bar { label, value: mib, is_ours: true });
    }
    let text = format!(
        "**Memory**: peak resident memory of `run --persistent`, without its child processes. The \
         aim is at most {AIM_MIB} MiB for any number of lines.\n\n{}",
        table(&["", "peak resident memory"], &rows)
    );
    let title = "Peak resident memory of a run, without its child processes".to_owned();
    Ok(Section { text, panels: vec![Panel { title, unit: " MiB", bars, aim: Some(AIM_MIB) }] })
}

fn resident(place: &Workplace, lines: usize) -> Result<f64> {
    let folder = place.fresh()?;
    numbers(&folder.join("rows"), lines)?;
    let mut command = place.shardwright(&folder);
    command.args(["run", "--lines", "rows", "--persistent", "--in-flight", "1024", "--"]);
    command.arg(place.example("persistent_worker"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let most = watch(&mut child)?;
    ensure!(child.wait()?.success(), "the run failed");
    // The results of ten million lines are large.
    fs::remove_dir_all(&folder)?;
    Ok(most)
}

/// The last high-water mark that was read, in MiB.
fn watch(child: &mut Child) -> Result<f64> {
    let status = format!("/proc/{}/status", child.id());
    let mut most = None;
    while child.try_wait()?.is_none() {
        // A zombie process has no memory.
        let text = fs::read_to_string(&status).unwrap_or_default();
        most = high_water_mark(&text).or(most);
        std::thread::sleep(READ_INTERVAL);
    }
    most.context("the run ended before its memory was read")
}

fn high_water_mark(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1_024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_parsed() {
        let status = "Name:\tx\nVmHWM:\t   20480 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(high_water_mark(status), Some(20.0));
        assert_eq!(high_water_mark("Name:\tzombie\n"), None);
        let own = fs::read_to_string("/proc/self/status").unwrap();
        assert!(high_water_mark(&own).unwrap() > 0.1);
    }
}
