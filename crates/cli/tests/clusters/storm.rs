//! Nodes and gates as processes on a real etcd, under a steady load of clients that never try
//! again, while everything is done to them that may be.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use shardwright_store::testing::EtcdCluster;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

/// Says how many calls a second there are, for a machine that is busy with other things.
const RATE: &str = "SHARDWRIGHT_STORM_RATE";
/// If nobody does: 500 at least, and some more for what a second has too little that the one after
/// it has too much.
const USUAL_RATE: &str = "550";
/// How many of those that are due in a second are made in every single one, at least, in
/// hundredths. The clients share two cores with all else that runs here, and may have to wait for
/// one; what they miss they make up for.
const IN_EVERY_SECOND: u64 = 50;
/// The events, in this order. The first three are planned, and no call may fail of them.
const EVENTS: &str = "join,drain,terminate,kill,pause,store";

fn store_address(etcd: &EtcdCluster) -> String {
    let members = (0..etcd.len()).map(|at| etcd.address(at).unwrap().to_string());
    format!("etcd://{}", members.collect::<Vec<_>>().join(","))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planned_events_fail_no_call_and_unplanned_ones_lose_nothing() {
    let mut etcd = EtcdCluster::three().await.unwrap();
    let rate = std::env::var(RATE).unwrap_or_else(|_| USUAL_RATE.to_owned());
    let store = store_address(&etcd);
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardwright"));
    command.args(["--store", &store, "--json", "demo", "cluster", "--nodes", "4", "--gates", "2"]);
    command.args(["--rate", &rate, "--session-ms", "3000", "--deadline-ms", "2000"]);
    command.args(["--calm-ms", "2000", "--events", EVENTS]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut demo = command.spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let mut told = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        let value: Value = serde_json::from_str(&line).unwrap();
        if value["event"] == "phase" && value["phase"] == "store" {
            let leader = etcd.leader().await.unwrap();
            etcd.kill(leader).unwrap();
        }
        told.push(value);
    }
    let status = demo.wait().await.unwrap();
    let mut errors = String::new();
    demo.stderr.take().unwrap().read_to_string(&mut errors).await.unwrap();
    let all = || told.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    assert_eq!(status.code(), Some(0), "{}\n{errors}", all());

    let end = told.last().unwrap();
    assert_eq!(end["broken"], Value::Array(Vec::new()), "{end}");
    assert_eq!((&end["lost"], &end["failed_for_nothing"]), (&0.into(), &0.into()), "{end}");
    let phases = end["phases"].as_array().unwrap();
    let names: Vec<&str> = phases.iter().map(|one| one["phase"].as_str().unwrap()).collect();
    assert_eq!(names.join(","), format!("calm,{EVENTS}"));
    for planned in &phases[..4] {
        assert_eq!(planned["failed"], 0, "{planned}");
    }
    assert!(phases[1]["moved"].as_u64().unwrap() > 0, "a node that joins gets shards: {end}");
    // The load never let up: what was due was sent, whatever became of what was sent before.
    let rate: u64 = rate.parse().unwrap();
    let took: u64 = phases.iter().map(|one| one["took_ms"].as_u64().unwrap()).sum();
    let due = Duration::from_millis(took).as_secs() * rate;
    assert!(end["calls"].as_u64().unwrap() >= due, "{end}");
    let fewest = end["fewest_in_a_second"].as_u64().unwrap();
    assert!(fewest * 100 >= rate * IN_EVERY_SECOND, "{end}");
}
