//! Nodes and gates as processes.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Site, wait_until};

/// A node or a gate as a process. Dropping it kills the process.
pub(crate) struct Server {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    pub(crate) address: String,
    /// The HTTP address of a gate.
    pub(crate) http: Option<String>,
}

impl Server {
    pub(crate) fn start(site: &Site, arguments: &[&str]) -> Self {
        let fast = ["--shards", "16", "--stability-ms", "100", "--check-interval-ms", "500"];
        let arguments = [&["--json"], arguments, &fast].concat();
        let mut server = Self::of(site.command(&arguments).stdout(Stdio::piped()).spawn().unwrap());
        let first = server.event();
        server.address = first["address"].as_str().unwrap().to_owned();
        server.http = first["http"].as_str().map(str::to_owned);
        server
    }

    /// A process that has reported nothing yet.
    pub(crate) fn of(mut child: Child) -> Self {
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, address: String::new(), http: None }
    }

    /// The next event.
    pub(crate) fn event(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the exit, and returns the exit code and the names of all events.
    pub(crate) fn wait_for_events(mut self) -> (Option<i32>, Vec<String>) {
        let event = |line: std::io::Result<String>| {
            let value: Value = serde_json::from_str(&line.unwrap()).unwrap();
            value["event"].as_str().unwrap().to_owned()
        };
        let events = self.lines.by_ref().map(event).collect();
        (self.child.wait().unwrap().code(), events)
    }

    /// Waits for the exit, and returns the exit code and the event `left`.
    pub(crate) fn wait_for_left(mut self) -> (Option<i32>, Value) {
        let value = |line: std::io::Result<String>| serde_json::from_str(&line.unwrap()).unwrap();
        let left = self.lines.by_ref().map(value).find(|value: &Value| value["event"] == "left");
        (self.child.wait().unwrap().code(), left.unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

pub(crate) fn json(site: &Site, arguments: &[&str]) -> Value {
    let printed = site.expect(0, &[&["--json"], arguments].concat());
    serde_json::from_str(printed.lines().next().unwrap()).unwrap()
}

/// The number of shards that a node holds.
pub(crate) fn held_shards(site: &Site, address: &str) -> u64 {
    let status = json(site, &["cluster", "status"]);
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["address"] == address).unwrap()["held"].as_u64().unwrap()
}

/// Waits until the cluster is ready and every node holds its share.
pub(crate) fn wait_until_ready(site: &Site, nodes: usize) {
    wait_until(|| {
        let status = json(site, &["cluster", "status"]);
        let has_share = |node: &Value| node["held"].as_u64().unwrap() >= 16 / nodes as u64;
        let all = status["nodes"].as_array().unwrap();
        status["ready"] == true && all.len() == nodes && all.iter().all(has_share)
    });
}
