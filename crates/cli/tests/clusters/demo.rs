//! The demonstration of clusters, in short.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Site, wait_until};

#[test]
fn the_demonstration_keeps_its_promises() {
    let site = Site::new();
    let arguments = ["--json", "demo", "cluster", "--rate", "50", "--calm-ms", "500"];
    let told = site.expect(0, &arguments);
    let end: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!(end["broken"], Value::Array(Vec::new()), "{end}");
    for (at, name) in ["calm", "join", "terminate", "kill"].into_iter().enumerate() {
        let phase = &end["phases"][at];
        assert_eq!(phase["phase"], name);
        assert!(name == "kill" || phase["failed"] == 0, "{phase}");
    }
    assert!(end["acknowledged"].as_u64().unwrap() > 50, "{end}");
}

/// The state of a process and who started it, as the kernel tells; none if it is gone.
fn stat(process: &str) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it may hold anything.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn children_of(parent: u32) -> Vec<Pid> {
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    let children = names.filter(|name| stat(name).is_some_and(|(_, of)| of == parent));
    children.filter_map(|name| Pid::from_raw(name.parse().ok()?)).collect()
}

fn state(process: Pid) -> char {
    stat(&process.as_raw_nonzero().to_string()).map_or('X', |(state, _)| state)
}

/// What must not outlive a test that fails.
struct Killed(Vec<Pid>);

impl Drop for Killed {
    fn drop(&mut self) {
        for process in &self.0 {
            let _gone = kill_process(*process, Signal::KILL);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_is_left_of_a_demonstration_that_was_killed_not_even_a_node_that_stood_still() {
    let site = Site::new();
    let arguments = ["--json", "demo", "cluster", "--nodes", "1", "--calm-ms", "600000"];
    let mut demo = site.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(r#""phase":"calm""#)));
    let processes = Killed(children_of(demo.id()));
    assert_eq!(processes.0.len(), 2, "a node and a gate");
    for process in &processes.0 {
        kill_process(*process, Signal::STOP).unwrap();
    }
    wait_until(|| processes.0.iter().all(|process| state(*process) == 'T'));
    demo.kill().unwrap();
    demo.wait().unwrap();
    // Whoever has inherited them may not have asked yet how they ended.
    wait_until(|| processes.0.iter().all(|process| matches!(state(*process), 'X' | 'Z')));
}
