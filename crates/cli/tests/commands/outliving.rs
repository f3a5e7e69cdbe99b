//! No process of a run outlives it, whatever its commands start and whatever is killed.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::support::{Site, wait_until};

/// A variable by which all processes of a run are found.
const MARK: &str = "SHARDWRIGHT_TEST_MARK";

/// Starts children that try to outlive the command, and waits for them: one in a session of its
/// own that ignores signals, one that was orphaned in a session of its own, one that is stopped.
/// Each proves that it runs by a file in `marks`.
const STUBBORN: &str = r#"
    setsid sh -c 'trap "" TERM INT HUP; echo > marks/ignoring; while :; do sleep 1000; done' &
    setsid -f sh -c 'echo > marks/orphan; exec sleep 1000' < /dev/null > /dev/null 2>&1
    sh -c 'echo > marks/stopped; kill -STOP $$' &
    wait"#;

/// A run whose command starts stubborn children.
struct StubbornRun {
    site: Site,
    child: Child,
}

impl StubbornRun {
    fn start(script: &str) -> Self {
        Self::start_by(script, |command| command)
    }

    /// Starts a run by another command that becomes the program.
    fn start_by(script: &str, wrap: impl FnOnce(Command) -> Command) -> Self {
        let site = Site::with_files(1);
        fs::create_dir(site.path("marks")).unwrap();
        let command = site.command(&["run", "data", "--", "sh", "-c", script, "sh", "{}"]);
        let mut command = wrap(command);
        command.env(MARK, site.path("")).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.process_group(0).spawn().unwrap();
        let run = Self { site, child };
        wait_until(|| fs::read_dir(run.site.path("marks")).unwrap().count() == 3);
        run
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Live processes of the run, with their command lines.
    fn processes(&self) -> Vec<(Pid, String)> {
        let mark = format!("{MARK}={}", self.site.path("").display());
        let read = |id: Pid| {
            let folder = PathBuf::from(format!("/proc/{}", id.as_raw_nonzero()));
            let environ = fs::read(folder.join("environ")).ok()?;
            let is_marked = environ.split(|byte| *byte == 0).any(|set| set == mark.as_bytes());
            let line = fs::read(folder.join("cmdline")).ok()?;
            is_marked.then(|| (id, String::from_utf8_lossy(&line).into_owned()))
        };
        let entries = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
        let ids = entries.filter_map(|name| name.to_str()?.parse().ok());
        ids.filter_map(Pid::from_raw).filter_map(read).collect()
    }

    fn guards(&self) -> Vec<Pid> {
        let is_guard = |line: &str| line.starts_with("sw-guard");
        let processes = self.processes().into_iter();
        processes.filter(|(_, line)| is_guard(line)).map(|(id, _)| id).collect()
    }

    fn is_over(&self) -> bool {
        self.processes().is_empty()
    }

    /// Waits for the program, and then for all processes of the run.
    fn expect_over(mut self) -> Option<i32> {
        let code = self.child.wait().unwrap().code();
        wait_until(|| self.is_over());
        code
    }
}

#[test]
fn kill_of_the_program_leaves_no_process() {
    let run = StubbornRun::start(STUBBORN);
    assert!(run.processes().len() >= 6, "{:?}", run.processes());
    kill_process(run.id(), Signal::KILL).unwrap();
    assert_eq!(run.expect_over(), None);
}

#[test]
fn kill_of_the_programs_process_group_leaves_no_process() {
    let run = StubbornRun::start(STUBBORN);
    kill_process_group(run.id(), Signal::KILL).unwrap();
    assert_eq!(run.expect_over(), None);
}

#[test]
fn second_signal_leaves_no_process() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut run = StubbornRun::start(STUBBORN);
        wait_until(|| {
            // The second one may come at any time after the first.
            let _gone = kill_process_group(run.id(), signal);
            run.child.try_wait().unwrap().is_some()
        });
        assert_eq!(run.expect_over(), Some(130));
    }
}

#[test]
fn kill_of_the_guards_leaves_no_process_and_the_item_is_retried() {
    let run = StubbornRun::start(&format!("[ -e retried ] && exit; {STUBBORN}"));
    fs::write(run.site.path("retried"), "").unwrap();
    for guard in run.guards() {
        kill_process(guard, Signal::KILL).unwrap();
    }
    assert_eq!(run.expect_over(), Some(0));
}

#[test]
fn kill_of_a_guard_spares_a_sidecar_of_the_program() {
    let sidecar = format!(
        "env -u {MARK} sh -c 'echo $$ > new; mv new sidecar; exec sleep 100' & exec \"$0\" \"$@\""
    );
    let run = StubbornRun::start_by(&format!("[ -e retried ] && exit; {STUBBORN}"), |program| {
        let mut command = Command::new("sh");
        command.args(["-c", &sidecar]).arg(program.get_program()).args(program.get_args());
        command.current_dir(program.get_current_dir().unwrap()).stdin(Stdio::null());
        command
    });
    wait_until(|| run.site.path("sidecar").exists());
    let sidecar = fs::read_to_string(run.site.path("sidecar")).unwrap();
    fs::write(run.site.path("retried"), "").unwrap();
    for guard in run.guards() {
        kill_process(guard, Signal::KILL).unwrap();
    }
    assert_eq!(run.expect_over(), Some(0));
    kill_process(Pid::from_raw(sidecar.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn stopped_guard_still_kills_when_the_program_is_killed() {
    let run = StubbornRun::start(STUBBORN);
    for guard in run.guards() {
        kill_process(guard, Signal::STOP).unwrap();
    }
    kill_process(run.id(), Signal::KILL).unwrap();
    assert_eq!(run.expect_over(), None);
}

#[test]
fn signals_to_every_process_by_name_leave_no_process() {
    let run = StubbornRun::start(STUBBORN);
    let ids: Vec<Pid> = run.guards().into_iter().chain([run.id()]).collect();
    for _ in 0..2 {
        ids.iter().for_each(|id| _ = kill_process(*id, Signal::TERM));
    }
    kill_process(run.id(), Signal::KILL).unwrap();
    run.expect_over();
}

#[test]
fn kill_of_every_process_by_name_leaves_no_process() {
    let run = StubbornRun::start(STUBBORN);
    // As `pkill -9 shardwright`, but within the run.
    let is_named = |id: Pid| {
        let name = fs::read_to_string(format!("/proc/{}/comm", id.as_raw_nonzero())).unwrap();
        name.contains("shardwright")
    };
    let guards = run.guards();
    let named: Vec<Pid> = run.processes().into_iter().map(|(id, _)| id).collect();
    let named: Vec<Pid> = named.into_iter().filter(|id| is_named(*id)).collect();
    named.iter().for_each(|id| kill_process(*id, Signal::KILL).unwrap());
    assert_eq!((named, guards.is_empty()), (vec![run.id()], false));
    assert_eq!(run.expect_over(), None);
}

#[test]
fn daemon_of_a_successful_item_ends_with_the_run() {
    let daemon = STUBBORN.replace("wait", "until [ -e marks/stopped ]; do sleep 0.01; done");
    let run = StubbornRun::start(&format!("exec > /dev/null 2>&1; {daemon}"));
    assert_eq!(run.expect_over(), Some(0));
}

#[test]
fn ctrl_z_stops_the_program_but_not_its_commands() {
    let site = Site::with_files(1);
    let script = "echo > begun; until [ -e go ]; do sleep 0.01; done; echo > done";
    let mut child = site.start(&["run", "data", "--", "sh", "-c", script, "sh", "{}"]);
    wait_until(|| site.path("begun").exists());
    let id = Pid::from_child(&child);
    kill_process_group(id, Signal::TSTP).unwrap();
    let is_stopped = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero())).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with('T')
    };
    wait_until(is_stopped);
    fs::write(site.path("go"), "").unwrap();
    wait_until(|| site.path("done").exists());
    assert!(is_stopped());
    kill_process_group(id, Signal::CONT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
