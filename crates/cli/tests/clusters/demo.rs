//! `shardwright demo cluster`, with short phases.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Site, wait_until};

#[test]
fn demo_of_a_cluster_keeps_every_promise() {
    let site = Site::new();
    let arguments = ["--json", "demo", "cluster", "--rate", "50", "--calm-ms", "500"];
    let printed = site.expect(0, &arguments);
    let end: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!(end["broken"], Value::Array(Vec::new()), "{end}");
    for (at, name) in ["calm", "join", "terminate", "kill"].into_iter().enumerate() {
        let phase = &end["phases"][at];
        assert_eq!(phase["phase"], name);
        assert!(name == "kill" || phase["failed"] == 0, "{phase}");
    }
    assert!(end["acknowledged"].as_u64().unwrap() > 50, "{end}");
}

/// The state and the parent of a process, from `/proc`. Returns `None` if there is no process.
fn state_and_parent(process: &str) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program comes first, and may contain spaces and parentheses.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn children_of(parent: u32) -> Vec<Pid> {
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    let is_child = |name: &String| state_and_parent(name).is_some_and(|(_, found)| found == parent);
    let children = names.filter(is_child);
    children.filter_map(|name| Pid::from_raw(name.parse().ok()?)).collect()
}

fn state(process: Pid) -> char {
    state_and_parent(&process.as_raw_nonzero().to_string()).map_or('X', |(state, _)| state)
}

/// Processes that are killed when the test ends, even if it fails.
struct KillOnDrop(Vec<Pid>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        for process in &self.0 {
            let _killed = kill_process(*process, Signal::KILL);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn killed_demo_leaves_no_process_behind_not_even_a_stopped_one() {
    let site = Site::new();
    let arguments = ["--json", "demo", "cluster", "--nodes", "1", "--calm-ms", "600000"];
    let mut demo = site.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(r#""phase":"calm""#)));
    let processes = KillOnDrop(children_of(demo.id()));
    assert_eq!(processes.0.len(), 2, "a node and a gate");
    for process in &processes.0 {
        kill_process(*process, Signal::STOP).unwrap();
    }
    wait_until(|| processes.0.iter().all(|process| state(*process) == 'T'));
    demo.kill().unwrap();
    demo.wait().unwrap();
    // They remain zombies until their new parent has waited for them.
    wait_until(|| processes.0.iter().all(|process| matches!(state(*process), 'X' | 'Z')));
}
