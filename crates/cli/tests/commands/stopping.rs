//! Runs that are interrupted, paused or stopped, and go on.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::support::{Site, wait_until};

/// Each item leaves a mark and waits until it may go on.
const WAITING: &str = "echo > marks/$SHARDWRIGHT_ROW; \
    while [ ! -e go ]; do sleep 0.01; done; echo $1";

struct Work {
    site: Site,
}

impl Work {
    fn new(rows: usize) -> Self {
        let site = Site::new();
        let rows: String = (1..=rows).map(|row| format!("{row}\n")).collect();
        fs::write(site.path("rows"), rows).unwrap();
        fs::create_dir(site.path("marks")).unwrap();
        Self { site }
    }

    fn command<'a>(flags: &[&'a str]) -> Vec<&'a str> {
        let run = ["run", "--lines", "rows", "--run", "work"];
        [&run, flags, &["--", "sh", "-c", WAITING, "sh", "{}"]].concat()
    }

    fn marks(&self) -> usize {
        fs::read_dir(self.site.path("marks")).unwrap().count()
    }

    /// Waits until the cursor of the only shard is somewhere.
    fn wait_for_cursor(&self) {
        let shards = || self.site.expect(0, &["shards", "work", "--json"]);
        wait_until(|| !shards().contains("\"done_up_to\":null"));
    }

    fn go(&self) {
        fs::write(self.site.path("go"), "").unwrap();
    }

    /// Runs it to its end, and makes sure that each of its rows has a result.
    fn finish(&self, flags: &[&str], rows: usize) {
        self.go();
        self.site.expect(0, &Self::command(flags));
        assert_eq!(self.site.keys_shown("work", "row").len(), rows);
        assert!(self.site.expect(0, &["verify", "work"]).contains("the receipt holds"));
    }
}

/// Reads what a program tells until it tells something.
fn read_until(stderr: &mut BufReader<ChildStderr>, expected: &str) -> String {
    let mut line = String::new();
    while !line.contains(expected) {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it never said {expected}");
    }
    line
}

fn stderr(child: &mut Child) -> BufReader<ChildStderr> {
    BufReader::new(child.stderr.take().unwrap())
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

#[test]
fn an_interrupted_run_finishes_what_it_began_and_goes_on_from_there() {
    for flags in [&["-j", "2"] as &[&str], &["-j", "1", "--shards", "1", "--at-dispatch"]] {
        let work = Work::new(20);
        let mut child = work.site.start_piped(&Work::command(flags));
        let mut told = stderr(&mut child);
        // Where items count when they are handed out, the cursor stands behind one without a
        // result now, or will before the end.
        wait_until(|| work.marks() > 0);
        if flags.contains(&"--at-dispatch") {
            work.wait_for_cursor();
        }
        interrupt(&child);
        read_until(&mut told, "once more to end at once");
        work.go();
        let summary = read_until(&mut told, "the same command goes on from here");
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let begun = work.marks();
        assert!(begun < 20);
        // It is told how far it is, and not how far it was at the last look.
        assert!(summary.contains(&format!("{} % of items", begun * 5)), "{begun}: {summary}");
        let shards = work.site.expect(0, &["shards", "work"]);
        assert!(!shards.contains("held"), "{shards}");
        work.finish(flags, 20);
        assert_eq!(work.marks(), 20);
    }
}

#[test]
fn a_second_interruption_ends_it_at_once() {
    let work = Work::new(4);
    let flags = ["-j", "1", "--lease", "1"];
    let mut child = work.site.start_piped(&Work::command(&flags));
    let mut told = stderr(&mut child);
    wait_until(|| work.marks() > 0);
    interrupt(&child);
    read_until(&mut told, "once more to end at once");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    work.finish(&flags, 4);
}

#[test]
fn a_paused_run_waits_and_goes_on_in_the_same_process() {
    // Leases that do not end by themselves, however slow the machine is.
    let flags = ["-j", "2", "--lease", "60"];
    for flags in [&flags[..], &[&flags[..], &["--at-dispatch"]].concat()] {
        let work = Work::new(30);
        let mut child = work.site.start_piped(&Work::command(flags));
        let mut told = stderr(&mut child);
        wait_until(|| work.marks() == 2);
        work.site.expect(0, &["pause", "work"]);
        work.go();
        read_until(&mut told, "the run is paused");
        wait_until(|| !work.site.expect(0, &["shards", "work"]).contains("held"));
        let begun = work.marks();
        assert!(work.site.expect(0, &["show", "work"]).contains("paused"));
        assert_eq!(work.marks(), begun);
        assert!(child.try_wait().unwrap().is_none());
        work.site.expect(0, &["resume", "work"]);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        work.finish(flags, 30);
        assert_eq!(work.marks(), 30);
    }
    let site = Site::with_files(1);
    site.expect(0, &["run", "data", "--run", "ended", "--", "cat", "{}"]);
    let told = site.expect(2, &["pause", "ended"]);
    assert!(told.contains("the run ended has ended: it is done"), "{told}");
}

#[test]
fn what_was_handed_out_at_a_kill_is_missing_and_verify_says_so() {
    let work = Work::new(10);
    let flags = ["-j", "1", "--shards", "1", "--lease", "1", "--at-dispatch"];
    let mut child = work.site.start(&Work::command(&flags));
    // The cursor is behind the first row, which is under way.
    wait_until(|| work.marks() > 0);
    work.wait_for_cursor();
    kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    work.go();
    let told = work.site.expect(0, &Work::command(&flags));
    assert!(told.contains("those under way at a kill are missing"), "{told}");
    assert_eq!(work.site.keys_shown("work", "row").len(), 9);
    let told = work.site.expect(0, &["verify", "work"]);
    assert!(told.contains("1 items have no result"), "{told}");
    assert!(told.contains("the receipt holds"), "{told}");
}

#[test]
fn too_many_failures_are_told_with_what_helps() {
    let site = Site::with_files(200);
    let run = |code: i32, flags: &[&str]| {
        let said = ["run", "data", "--run", "bad", "--retries", "0", "-j", "2", "--max-failures"];
        site.expect(code, &[&said, flags, &["--", "sh", "-c", "test -e fixed"]].concat())
    };
    let told = run(4, &["3"]);
    for advice in ["parked bad", "resume bad", "retry --parked bad", "higher --max-failures"] {
        assert!(told.contains(advice), "{advice}: {told}");
    }
    fs::write(site.path("fixed"), "").unwrap();
    site.expect(0, &["resume", "bad"]);
    site.expect(0, &["retry", "--parked", "bad"]);
    assert_eq!(site.keys("bad").len(), 200);
    // Nothing is wrong with it any more.
    run(0, &["3"]);
}

#[test]
fn too_many_failures_at_the_end_are_told_each_time_and_keep_no_results_back() {
    for flags in [&["--at-dispatch"] as &[&str], &[]] {
        let site = Site::with_files(20);
        let run = |limit: &str, code: i32| {
            let said = ["run", "data", "--run", "bad", "--retries", "0", "--max-failures", limit];
            let script = ["--", "sh", "-c", "case $1 in *3) exit 1;; esac", "sh", "{}"];
            site.expect(code, &[&said, flags, &script].concat())
        };
        // Two of twenty fail, which is too few to tell before the end.
        for _ in 0..2 {
            assert!(run("5%", 4).contains("too many items failed"));
            let failed = site.receipt("bad")["failed"].as_u64().unwrap();
            let parked = site.receipt("bad")["parked"].as_array().unwrap().len() as u64;
            assert_eq!(failed + parked, 2);
            assert!(site.expect(0, &["verify", "bad"]).contains("the receipt holds"));
        }
        // What failed is told as well where it could not be set aside, however often it is asked.
        for _ in 0..2 {
            run("20%", 3);
        }
    }
}

#[test]
fn failures_are_told_when_they_happen_where_nobody_draws() {
    let work = Work::new(2);
    let script = "[ $1 = 1 ] && exit 9; while [ ! -e go ]; do sleep 0.01; done";
    let flags = ["run", "--lines", "rows", "--run", "work", "--retries", "0", "--shards", "1"];
    let command = [&flags[..], &["--", "sh", "-c", script, "sh", "{}"]].concat();
    let mut child = work.site.start_piped(&command);
    read_until(&mut stderr(&mut child), "failed: row 1: exit code 9");
    work.go();
    assert_eq!(child.wait().unwrap().code(), Some(3));
}
