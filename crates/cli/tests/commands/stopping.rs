//! Runs that are interrupted, paused or stopped, and resume.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::support::{Site, wait_until};

/// Each item creates a marker file, and waits until the file `go` exists.
const BLOCKING: &str = "echo > marks/$SHARDWRIGHT_ROW; \
    while [ ! -e go ]; do sleep 0.01; done; echo $1";

/// A run over rows whose items block until [`BlockedRun::unblock`].
struct BlockedRun {
    site: Site,
}

impl BlockedRun {
    fn new(rows: usize) -> Self {
        let site = Site::new();
        let rows: String = (1..=rows).map(|row| format!("{row}\n")).collect();
        fs::write(site.path("rows"), rows).unwrap();
        fs::create_dir(site.path("marks")).unwrap();
        Self { site }
    }

    fn command<'a>(flags: &[&'a str]) -> Vec<&'a str> {
        let run = ["run", "--lines", "rows", "--run", "work"];
        [&run, flags, &["--", "sh", "-c", BLOCKING, "sh", "{}"]].concat()
    }

    /// The number of items that were started.
    fn started(&self) -> usize {
        fs::read_dir(self.site.path("marks")).unwrap().count()
    }

    /// Waits until the only shard has a cursor.
    fn wait_for_cursor(&self) {
        let shards = || self.site.expect(0, &["shards", "work", "--json"]);
        wait_until(|| !shards().contains("\"done_up_to\":null"));
    }

    fn unblock(&self) {
        fs::write(self.site.path("go"), "").unwrap();
    }

    /// Runs to the end, and checks that each row has a result.
    fn finish(&self, flags: &[&str], rows: usize) {
        self.unblock();
        self.site.expect(0, &Self::command(flags));
        assert_eq!(self.site.field_values("work", "row").len(), rows);
        assert!(self.site.expect(0, &["verify", "work"]).contains("the receipt holds"));
    }
}

/// Reads stderr up to the line that contains a text, and returns that line.
fn read_until(stderr: &mut BufReader<ChildStderr>, expected: &str) -> String {
    let mut line = String::new();
    while !line.contains(expected) {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "stderr ended without {expected}");
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
fn interrupted_run_finishes_items_in_progress_and_resumes() {
    for flags in [&["-j", "2"] as &[&str], &["-j", "1", "--shards", "1", "--at-dispatch"]] {
        let blocked = BlockedRun::new(20);
        let mut child = blocked.site.start_piped(&BlockedRun::command(flags));
        let mut stderr = stderr(&mut child);
        // With --at-dispatch, the cursor must be past an item without a result before the signal.
        wait_until(|| blocked.started() > 0);
        if flags.contains(&"--at-dispatch") {
            blocked.wait_for_cursor();
        }
        interrupt(&child);
        read_until(&mut stderr, "interrupt again to exit at once");
        blocked.unblock();
        let summary = read_until(&mut stderr, "the same command resumes the run");
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let started = blocked.started();
        assert!(started < 20);
        // The summary has the progress at the end, not that of the last measurement.
        assert!(summary.contains(&format!("{} % of items", started * 5)), "{started}: {summary}");
        let shards = blocked.site.expect(0, &["shards", "work"]);
        assert!(!shards.contains("held"), "{shards}");
        blocked.finish(flags, 20);
        assert_eq!(blocked.started(), 20);
    }
}

#[test]
fn second_interrupt_exits_at_once() {
    let blocked = BlockedRun::new(4);
    let flags = ["-j", "1", "--lease", "1"];
    let mut child = blocked.site.start_piped(&BlockedRun::command(&flags));
    let mut stderr = stderr(&mut child);
    wait_until(|| blocked.started() > 0);
    interrupt(&child);
    read_until(&mut stderr, "interrupt again to exit at once");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    blocked.finish(&flags, 4);
}

#[test]
fn paused_run_waits_and_resumes_in_the_same_process() {
    // Long leases, so that none expires on a slow machine.
    let flags = ["-j", "2", "--lease", "60"];
    for flags in [&flags[..], &[&flags[..], &["--at-dispatch"]].concat()] {
        let blocked = BlockedRun::new(30);
        let mut child = blocked.site.start_piped(&BlockedRun::command(flags));
        let mut stderr = stderr(&mut child);
        wait_until(|| blocked.started() == 2);
        blocked.site.expect(0, &["pause", "work"]);
        blocked.unblock();
        read_until(&mut stderr, "the run is paused");
        wait_until(|| !blocked.site.expect(0, &["shards", "work"]).contains("held"));
        let started = blocked.started();
        assert!(blocked.site.expect(0, &["show", "work"]).contains("paused"));
        assert_eq!(blocked.started(), started);
        assert!(child.try_wait().unwrap().is_none());
        blocked.site.expect(0, &["resume", "work"]);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        blocked.finish(flags, 30);
        assert_eq!(blocked.started(), 30);
    }
    let site = Site::with_files(1);
    site.expect(0, &["run", "data", "--run", "ended", "--", "cat", "{}"]);
    let printed = site.expect(2, &["pause", "ended"]);
    assert!(printed.contains("run ended has already ended: it is done"), "{printed}");
}

#[test]
fn verify_reports_an_item_that_was_dispatched_before_a_kill() {
    let blocked = BlockedRun::new(10);
    let flags = ["-j", "1", "--shards", "1", "--lease", "1", "--at-dispatch"];
    let mut child = blocked.site.start(&BlockedRun::command(&flags));
    // The cursor moves past the first row while that row is still in progress.
    wait_until(|| blocked.started() > 0);
    blocked.wait_for_cursor();
    kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    blocked.unblock();
    let printed = blocked.site.expect(0, &BlockedRun::command(&flags));
    assert!(printed.contains("items in progress during a kill have no result"), "{printed}");
    assert_eq!(blocked.site.field_values("work", "row").len(), 9);
    let printed = blocked.site.expect(0, &["verify", "work"]);
    assert!(printed.contains("1 items have no result"), "{printed}");
    assert!(printed.contains("the receipt holds"), "{printed}");
}

#[test]
fn too_many_failures_are_reported_with_the_remedy() {
    let site = Site::with_files(200);
    let run = |code: i32, flags: &[&str]| {
        let arguments =
            ["run", "data", "--run", "bad", "--retries", "0", "-j", "2", "--max-failures"];
        site.expect(code, &[&arguments, flags, &["--", "sh", "-c", "test -e fixed"]].concat())
    };
    let printed = run(4, &["3"]);
    for advice in ["parked bad", "resume bad", "retry --parked bad", "higher --max-failures"] {
        assert!(printed.contains(advice), "{advice}: {printed}");
    }
    fs::write(site.path("fixed"), "").unwrap();
    site.expect(0, &["resume", "bad"]);
    site.expect(0, &["retry", "--parked", "bad"]);
    assert_eq!(site.keys("bad").len(), 200);
    // The retried items no longer count as failed.
    run(0, &["3"]);
}

#[test]
fn too_many_failures_at_the_end_still_write_results_and_receipt() {
    for flags in [&["--at-dispatch"] as &[&str], &[]] {
        let site = Site::with_files(20);
        let run = |limit: &str, code: i32| {
            let arguments =
                ["run", "data", "--run", "bad", "--retries", "0", "--max-failures", limit];
            let script = ["--", "sh", "-c", "case $1 in *3) exit 1;; esac", "sh", "{}"];
            site.expect(code, &[&arguments, flags, &script].concat())
        };
        // A percentage of fewer than 100 items applies only after all of them were tried.
        for _ in 0..2 {
            assert!(run("5%", 4).contains("too many items failed"));
            let failed = site.receipt("bad")["failed"].as_u64().unwrap();
            let parked = site.receipt("bad")["parked"].as_array().unwrap().len() as u64;
            assert_eq!(failed + parked, 2);
            assert!(site.expect(0, &["verify", "bad"]).contains("the receipt holds"));
        }
        // Every process reports the failures, with --at-dispatch too, where no item is parked.
        for _ in 0..2 {
            run("20%", 3);
        }
    }
}

#[test]
fn failures_are_printed_at_once_without_a_terminal() {
    let blocked = BlockedRun::new(2);
    let script = "[ $1 = 1 ] && exit 9; while [ ! -e go ]; do sleep 0.01; done";
    let flags = ["run", "--lines", "rows", "--run", "work", "--retries", "0", "--shards", "1"];
    let command = [&flags[..], &["--", "sh", "-c", script, "sh", "{}"]].concat();
    let mut child = blocked.site.start_piped(&command);
    read_until(&mut stderr(&mut child), "failed: row 1: exit code 9");
    blocked.unblock();
    assert_eq!(child.wait().unwrap().code(), Some(3));
}
