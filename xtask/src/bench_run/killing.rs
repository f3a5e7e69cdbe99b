//! Kills, and the recovery after them.

mod journal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::journal::Journal;
use super::document::{Section, table};
use super::plot::{Bar, Panel};
use super::turns::time;
use super::workplace::{Workplace, numbers, reading, thousands};

const MANY_ITEMS: usize = 1_000_000;
const ITEMS: usize = 100_000;
const KILLS: usize = 50;
/// For the comparison with tools that start a process per item.
const FEW_ITEMS: usize = 100;
/// The most items that a worker does before it moves its cursor.
const CHECKPOINT_ITEMS: usize = 5_000;
const IN_FLIGHT: &str = "256";
const AIM: Duration = Duration::from_secs(1);
/// The interval between two checks of progress.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// The time after which the children of a killed program have ended.
const SETTLED: Duration = Duration::from_millis(200);
/// The timeout of the bench.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The outcome of one kill.
struct Outcome {
    first_new: Duration,
    /// The number of items that were started more than once.
    again: usize,
    lost: usize,
}

/// A command that is killed, and resumes when it is started again.
type Start<'a> = &'a dyn Fn(&Path) -> Command;

pub(super) fn measure(place: &Workplace) -> Result<Section> {
    let mut section = ours(place)?;
    let others = beside_others(place)?;
    section.text.push('\n');
    section.text.push_str(&others.text);
    section.panels.extend(others.panels);
    Ok(section)
}

fn ours(place: &Workplace) -> Result<Section> {
    let worker = place.example("persistent_worker");
    let start = |folder: &Path| {
        let mut command = place.shardwright(folder);
        command.args(["run", "--lines", "rows", "--run", "killed", "--persistent"]);
        command.args(["--in-flight", IN_FLIGHT, "--"]).arg(&worker).arg("log");
        command
    };
    let checked = |items, share| -> Result<Outcome> {
        let folder = place.fresh()?;
        let outcome = kill_and_go_on(&folder, &start, items, share)?;
        let (missing, twice) = check_results(place, &folder, items)?;
        ensure!(
            missing + twice == 0,
            "{missing} items are missing in the results and {twice} are there twice"
        );
        fs::remove_dir_all(&folder)?;
        Ok(outcome)
    };
    println!("  one kill in the middle of {MANY_ITEMS} items");
    let big = checked(MANY_ITEMS, 0.5)?;
    let mut outcomes = Vec::new();
    for kill in 0..KILLS {
        outcomes.push(checked(ITEMS, moment(kill))?);
    }
    println!("  {KILLS} kills in runs of {ITEMS} items");
    let bound = CHECKPOINT_ITEMS * place.cores();
    let row = |what: String, outcomes: &[Outcome]| {
        let slowest = outcomes.iter().map(|it| it.first_new).max().unwrap_or_default();
        let again = outcomes.iter().map(|it| it.again).max().unwrap_or_default();
        let lost: usize = outcomes.iter().map(|it| it.lost).sum();
        vec![
            what,
            format!("{:.2} s", slowest.as_secs_f64()),
            thousands(again),
            lost.to_string(),
            "0 missing, 0 twice".to_owned(),
        ]
    };
    let rows = [
        row(format!("one kill at 50 % of {} items", thousands(MANY_ITEMS)), &[big]),
        row(format!("{KILLS} kills, spread over runs of {} items", thousands(ITEMS)), &outcomes),
    ];
    let head = ["", "time to a new item", "started again", "never started", "in the results"];
    let text = format!(
        "**Kills**: `run --persistent --in-flight {IN_FLIGHT}` is killed with `kill -9` and \
         started again. The table shows the worst of all kills. The aims: a new item within {} s, \
         at most {} items started again (a worker commits its cursor after {} items at the \
         latest), no result missing, none twice. `verify` succeeds after each.\n\n{}",
        AIM.as_secs(),
        thousands(bound),
        thousands(CHECKPOINT_ITEMS),
        table(&head, &rows)
    );
    Ok(Section { text, panels: Vec::new() })
}

fn beside_others(place: &Workplace) -> Result<Section> {
    const WORK: &str = "sleep 0.02; echo \"$0\" >> log";
    let ours = |folder: &Path| {
        let mut command = place.shardwright(folder);
        command.args(["run", "--lines", "rows", "--workers", "2", "--run", "killed", "--"]);
        command.args(["sh", "-c", WORK, "{}"]);
        command
    };
    let parallel = |folder: &Path| {
        let resumable = ["-j2", "--joblog", "joblog", "--resume", "sh", "-c"];
        let quoted = format!("'{WORK}'");
        let mut arguments = resumable.to_vec();
        arguments.extend([quoted.as_str(), "{}"]);
        let mut command = reading(Path::new("rows"), "parallel", &arguments);
        command.current_dir(folder);
        command
    };
    let xargs = |folder: &Path| {
        let arguments = ["-n1", "-P2", "sh", "-c", WORK];
        let mut command = reading(Path::new("rows"), "xargs", &arguments);
        command.current_dir(folder);
        command
    };
    let contenders: [(&str, Start<'_>); 3] = [
        ("shardwright run", &ours),
        ("GNU parallel --joblog --resume", &parallel),
        ("xargs, from the start", &xargs),
    ];
    let mut all: Vec<Vec<Outcome>> = contenders.iter().map(|_| Vec::new()).collect();
    for kill in 0..KILLS {
        for ((name, start), outcomes) in contenders.iter().zip(&mut all) {
            let folder = place.fresh()?;
            let outcome = kill_and_go_on(&folder, *start, FEW_ITEMS, moment(kill));
            outcomes.push(outcome.with_context(|| (*name).to_owned())?);
        }
    }
    Ok(describe(&contenders.map(|(name, _)| name), &all))
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn describe(names: &[&str], all: &[Vec<Outcome>]) -> Section {
    let mean = |outcomes: &[Outcome], of: &dyn Fn(&Outcome) -> f64| {
        outcomes.iter().map(of).sum::<f64>() / outcomes.len().max(1) as f64
    };
    let again = |outcomes: &[Outcome]| mean(outcomes, &|outcome| outcome.again as f64);
    let row = |(name, outcomes): (&&str, &Vec<Outcome>)| {
        let lost: usize = outcomes.iter().map(|outcome| outcome.lost).sum();
        vec![
            (*name).to_owned(),
            format!("{:.2} s", mean(outcomes, &|outcome| outcome.first_new.as_secs_f64())),
            format!("{:.1}", again(outcomes)),
            lost.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = names.iter().zip(all).map(row).collect();
    let head = ["", "time to a new item", "started again", "never started"];
    let text = format!(
        "**Kills, against other tools**: one process per item that sleeps for 20 ms, {FEW_ITEMS} \
         items, two at a time, means of {KILLS} kills of the tool. HyperQueue's Python package has \
         no journal, so it cannot resume.\n\n{}",
        table(&head, &rows)
    );
    let bar = |(index, (name, outcomes)): (usize, (&&str, &Vec<Outcome>))| Bar {
        label: (*name).to_owned(),
        value: again(outcomes),
        is_ours: index == 0,
    };
    let panel = Panel {
        title: format!("Items of {FEW_ITEMS} started again after a kill -9"),
        unit: "",
        bars: names.iter().zip(all).enumerate().map(bar).collect(),
        aim: None,
    };
    Section { text, panels: vec![panel] }
}

/// The time of a kill, as a share of all items: evenly spread and reproducible.
#[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
fn moment(kill: usize) -> f64 {
    // Multiples of the golden ratio fill the interval without a pattern.
    (kill as f64).mul_add(0.618_033_988_75, 0.5).fract().mul_add(0.96, 0.02)
}

/// Starts a command, kills it when a share of the items was started, and starts it again to the
/// end.
fn kill_and_go_on(folder: &Path, start: Start<'_>, items: usize, share: f64) -> Result<Outcome> {
    numbers(&folder.join("rows"), items)?;
    let mut journal = Journal::new(folder.join("log"), items);
    let mut child = spawn(start(folder))?;
    wait_until(&mut child, || Ok(journal.read()? >= share_of(items, share)))?;
    // A command that has already ended has nothing to lose.
    let _gone = child.kill();
    child.wait()?;
    // Work of remaining children does not count for the second start.
    std::thread::sleep(SETTLED);
    let before = journal.read()?;
    let again = Instant::now();
    let mut child = spawn(start(folder))?;
    let mut first_new = None;
    wait_until(&mut child, || {
        first_new = (journal.read()? > before).then(|| again.elapsed());
        Ok(first_new.is_some())
    })?;
    let status = child.wait()?;
    ensure!(status.success(), "the second start ended with {status}");
    let begun = journal.read()?;
    let first_new = first_new.unwrap_or_else(|| again.elapsed());
    Ok(Outcome { first_new, again: journal.repeated(), lost: items - begun })
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share need not be exact"
)]
fn share_of(items: usize, share: f64) -> usize {
    (items as f64 * share) as usize
}

fn spawn(mut command: Command) -> Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().with_context(|| format!("{command:?} did not start"))
}

/// Polls until a condition holds or the child has ended.
fn wait_until(child: &mut Child, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !is_so()? && child.try_wait()?.is_none() {
        ensure!(start.elapsed() < TIMEOUT, "no progress within the timeout");
        std::thread::sleep(CHECK_INTERVAL);
    }
    Ok(())
}

/// Verifies the run, and counts the missing and the repeated rows in the results.
fn check_results(place: &Workplace, folder: &Path, items: usize) -> Result<(usize, usize)> {
    time(place.shardwright(folder).args(["verify", "killed"]))?;
    let results: PathBuf = folder.join(".shardwright/runs/killed/results.jsonl");
    let text = fs::read_to_string(&results).with_context(|| results.display().to_string())?;
    let mut counts = vec![0_u8; items];
    for line in text.lines() {
        let row = line.split_once("\"row\":").context("a result has no row")?.1;
        let digits = row.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
        let place = digits.parse::<usize>()?.checked_sub(1).and_then(|row| counts.get_mut(row));
        let count = place.context("there is a result of an unknown row")?;
        *count = count.saturating_add(1);
    }
    let missing = counts.iter().filter(|count| **count == 0).count();
    Ok((missing, counts.iter().filter(|count| **count > 1).count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_spread_over_the_run() {
        let mut moments: Vec<f64> = (0..KILLS).map(moment).collect();
        moments.sort_by(f64::total_cmp);
        assert!(moments.iter().all(|moment| (0.02..0.98).contains(moment)));
        let widest = moments.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        assert!(widest < 0.05, "{widest}");
    }

    #[test]
    fn repeated_and_lost_items_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let script = |script: &'static str| {
            move |folder: &Path| {
                let mut command = Command::new("sh");
                command.args(["-c", script]).current_dir(folder);
                command
            }
        };
        // The first start waits for the kill, and the second one finds a file.
        let over = "echo 1 >> log; echo 2 >> log; [ -e mark ] || { touch mark; sleep 100; }; \
                    echo 3 >> log; echo 4 >> log";
        let outcome = kill_and_go_on(folder.path(), &script(over), 4, 0.5).unwrap();
        assert_eq!((outcome.again, outcome.lost), (2, 0));
        let folder = tempfile::tempdir().unwrap();
        let forgets = "[ -e mark ] && { echo 4 >> log; exit; }; touch mark; echo 1 >> log; \
                       echo 2 >> log; sleep 100";
        let outcome = kill_and_go_on(folder.path(), &script(forgets), 4, 0.5).unwrap();
        assert_eq!((outcome.again, outcome.lost), (0, 1));
    }
}
