//! Shards, one of which takes much longer than the others, which is not known beforehand.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::document::{Section, table};
use super::plot::{Bar, Panel};
use super::turns::{Contender, Taken, take_turns};
use super::workplace::{Workplace, reading};

const SHARDS: usize = 8;
const SLOW_SHARD: usize = 4;
const WORKERS: usize = 4;
const ROUNDS: usize = 3;
const AIM: f64 = 1.15;
/// The rounds of slow contenders with constant times.
const SLOW_ROUNDS: usize = 1;

/// Items that sleep.
struct Work {
    times_as_long: u32,
    items_per_shard: u32,
    item_ms: u32,
}

impl Work {
    fn item_ms(&self, shard: usize) -> u32 {
        if shard == SLOW_SHARD { self.item_ms * self.times_as_long } else { self.item_ms }
    }

    fn shard_ms(&self, shard: usize) -> u32 {
        self.item_ms(shard) * self.items_per_shard
    }

    /// The lower bound: all workers busy to the end.
    fn ideal(&self) -> f64 {
        let total: u32 = (0..SHARDS).map(|shard| self.shard_ms(shard)).sum();
        f64::from(total) / 1_000.0 / WORKERS as f64
    }

    /// Writes the sleep times in seconds: all items, and all shards as one item each. All lines
    /// have one length, so that rows are cut into exactly these shards.
    fn write(&self, folder: &Path) -> Result<Files> {
        let line = |ms: u32| format!("{:03}.{:03}\n", ms / 1_000, ms % 1_000);
        let shard = |shard| line(self.item_ms(shard)).repeat(self.items_per_shard as usize);
        let whole = |shard| line(self.shard_ms(shard));
        let task = |shard| format!("sleep {}", whole(shard));
        let write = |name: &str, text: String| {
            let file = folder.join(name);
            fs::write(&file, text).map(|()| file)
        };
        Ok(Files {
            items: write("items", (0..SHARDS).map(shard).collect())?,
            shards: write("shards", (0..SHARDS).map(whole).collect())?,
            tasks: write("tasks", (0..SHARDS).map(task).collect())?,
        })
    }
}

struct Files {
    items: PathBuf,
    shards: PathBuf,
    tasks: PathBuf,
}

pub(super) fn measure(place: &Workplace) -> Result<Section> {
    let works = [
        Work { times_as_long: 10, items_per_shard: 50, item_ms: 20 },
        Work { times_as_long: 100, items_per_shard: 100, item_ms: 3 },
    ];
    let mut section = Section::default();
    for work in &works {
        println!(" one {} times as long", work.times_as_long);
        let taken = compare(place, work)?;
        describe(&mut section, work, &taken);
    }
    Ok(section)
}

fn compare(place: &Workplace, work: &Work) -> Result<Vec<Taken>> {
    let Files { items, shards, tasks } = work.write(&place.fresh()?)?;
    let (workers, cut) = (WORKERS.to_string(), SHARDS.to_string());
    let ours = || {
        let mut command = place.shardwright(&place.fresh()?);
        command.args(["run", "--workers", &workers, "--shards", &cut, "--lines"]);
        command.arg(&items).args(["--", "sleep", "{}"]);
        Ok(command)
    };
    let xargs = |file| reading(file, "xargs", &["-n1", "-P", &workers, "sleep"]);
    let parallel = |file| reading(file, "parallel", &["-j", &workers, "sleep"]);
    take_turns(
        ROUNDS,
        vec![
            Contender::program("shardwright run, 8 shards", ours),
            Contender::program("xargs, item by item", || Ok(xargs(&items))),
            Contender::program("GNU parallel, item by item", || Ok(parallel(&items)))
                .at_most(SLOW_ROUNDS),
            Contender::program("xargs, 8 shards", || Ok(xargs(&shards))).at_most(SLOW_ROUNDS),
            Contender::program("GNU parallel, 8 shards", || Ok(parallel(&shards)))
                .at_most(SLOW_ROUNDS),
            Contender::new("HyperQueue, 8 shards", || place.hyperqueue(WORKERS, &tasks))
                .at_most(SLOW_ROUNDS),
        ],
    )
}

fn describe(section: &mut Section, work: &Work, taken: &[Taken]) {
    let Work { times_as_long, items_per_shard, item_ms } = work;
    let ideal = work.ideal();
    let row = |taken: &Taken| {
        let seconds = taken.seconds();
        let ratio = format!("{:.2}", seconds / ideal);
        vec![taken.name.clone(), format!("{seconds:.2} s"), taken.range(), ratio]
    };
    let rows: Vec<Vec<String>> = taken.iter().map(row).collect();
    section.text.push_str(&format!(
        "{}**One shard of {SHARDS} takes {times_as_long} times as long**, {WORKERS} workers: \
         {items_per_shard} items per shard that sleep for {item_ms} ms, or for {} ms in the slow \
         shard, one process each. The ideal is {ideal:.2} s, the aim at most {AIM} times that. \
         Rows with 8 shards run one sleep per shard.\n\n{}",
        if section.text.is_empty() { "" } else { "\n" },
        item_ms * times_as_long,
        table(&["", "time", "range", "time / ideal"], &rows)
    ));
    let bar = |(index, taken): (usize, &Taken)| Bar {
        label: taken.name.clone(),
        value: taken.seconds() / ideal,
        is_ours: index == 0,
    };
    section.panels.push(Panel {
        title: format!(
            "One shard of {SHARDS} takes {times_as_long} times as long, {WORKERS} workers: time \
             / ideal"
        ),
        unit: "",
        bars: taken.iter().enumerate().map(bar).collect(),
        aim: Some(AIM),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_cut_into_even_shards_and_its_ideal_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let work = Work { times_as_long: 10, items_per_shard: 4, item_ms: 500 };
        let files = work.write(folder.path()).unwrap();
        assert!((work.ideal() - 8.5).abs() < 1e-9);
        let items = fs::read_to_string(files.items).unwrap();
        assert_eq!(items.lines().count(), 32);
        assert!(items.lines().all(|line| line.len() == 7));
        assert_eq!(items.lines().filter(|line| *line == "005.000").count(), 4);
        let shards = fs::read_to_string(files.shards).unwrap();
        assert_eq!(shards.lines().nth(SLOW_SHARD), Some("020.000"));
        let tasks = fs::read_to_string(files.tasks).unwrap();
        assert_eq!(tasks.lines().next(), Some("sleep 002.000"));
    }
}
