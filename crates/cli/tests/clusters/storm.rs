//! Nodes and gates as processes on a real etcd, while clients call at a steady rate without
//! retries, and nodes join, leave, are killed and paused, and etcd loses its leader.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use shardwright_store::testing::EtcdCluster;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

/// The environment variable for the calls per second. A busy machine may need fewer.
const RATE: &str = "SHARDWRIGHT_STORM_RATE";
/// The default: 500, and a margin, because some seconds have fewer calls and the next ones more.
const DEFAULT_RATE: &str = "550";
/// The lowest rate in any second, in percent of the configured rate. Clients share two cores with
/// all other processes. They may have to wait, and send late calls in a later second.
const LOWEST_RATE_PERCENT: u64 = 50;
/// The events in their order. The first three are planned: no call may fail.
const EVENTS: &str = "join,drain,terminate,kill,pause,store";

fn store_address(etcd: &EtcdCluster) -> String {
    let members = (0..etcd.len()).map(|at| etcd.address(at).unwrap().to_string());
    format!("etcd://{}", members.collect::<Vec<_>>().join(","))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_in_planned_events_and_none_is_lost_in_faults() {
    let mut etcd = EtcdCluster::three().await.unwrap();
    let rate = std::env::var(RATE).unwrap_or_else(|_| DEFAULT_RATE.to_owned());
    let store = store_address(&etcd);
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardwright"));
    command.args(["--store", &store, "--json", "demo", "cluster", "--nodes", "4", "--gates", "2"]);
    command.args(["--rate", &rate, "--session-ms", "3000", "--deadline-ms", "2000"]);
    command.args(["--calm-ms", "2000", "--events", EVENTS]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut demo = command.spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let mut events = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        let value: Value = serde_json::from_str(&line).unwrap();
        if value["event"] == "phase" && value["phase"] == "store" {
            let leader = etcd.leader().await.unwrap();
            etcd.kill(leader).unwrap();
        }
        events.push(value);
    }
    let status = demo.wait().await.unwrap();
    let mut errors = String::new();
    demo.stderr.take().unwrap().read_to_string(&mut errors).await.unwrap();
    let all = || events.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    assert_eq!(status.code(), Some(0), "{}\n{errors}", all());

    let end = events.last().unwrap();
    assert_eq!(end["broken"], Value::Array(Vec::new()), "{end}");
    assert_eq!((&end["lost"], &end["failed_without_fault"]), (&0.into(), &0.into()), "{end}");
    let phases = end["phases"].as_array().unwrap();
    let names: Vec<&str> = phases.iter().map(|one| one["phase"].as_str().unwrap()).collect();
    assert_eq!(names.join(","), format!("calm,{EVENTS}"));
    for planned in &phases[..4] {
        assert_eq!(planned["failed"], 0, "{planned}");
    }
    assert!(phases[1]["moved"].as_u64().unwrap() > 0, "the joining node got no shards: {end}");
    // Clients sent every call that was due, even while earlier calls were unanswered.
    let rate: u64 = rate.parse().unwrap();
    let took: u64 = phases.iter().map(|one| one["took_ms"].as_u64().unwrap()).sum();
    let due = Duration::from_millis(took).as_secs() * rate;
    assert!(end["calls"].as_u64().unwrap() >= due, "{end}");
    let fewest = end["fewest_in_a_second"].as_u64().unwrap();
    assert!(fewest * 100 >= rate * LOWEST_RATE_PERCENT, "{end}");
}
