//! What an operator does with a cluster, and gets to see.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use shardwright_store::etcd::EtcdStore;
use shardwright_store::testing::EtcdCluster;
use shardwright_store::{Commit, Expect, Key, Store as _};

use crate::support::{Site, text, wait_until};

/// A node or a gate that runs until this is dropped.
struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    address: String,
    /// Where it takes calls over HTTP, if it does.
    http: Option<String>,
}

impl Server {
    fn start(site: &Site, arguments: &[&str]) -> Self {
        let quick = ["--shards", "16", "--stability-ms", "100", "--check-interval-ms", "500"];
        let arguments = [&["--json"], arguments, &quick].concat();
        let mut child = site.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let address = first["address"].as_str().unwrap().to_owned();
        let http = first["http"].as_str().map(str::to_owned);
        Self { child, lines, address, http }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it ends, and tells how, and what it said until then.
    fn ends(mut self) -> (Option<i32>, Vec<String>) {
        let event = |line: std::io::Result<String>| {
            let value: Value = serde_json::from_str(&line.unwrap()).unwrap();
            value["event"].as_str().unwrap().to_owned()
        };
        let events = self.lines.by_ref().map(event).collect();
        (self.child.wait().unwrap().code(), events)
    }
}

impl Server {
    /// Waits until it ends, and tells how, and what it said when it had left.
    fn leaves(mut self) -> (Option<i32>, Value) {
        let value = |line: std::io::Result<String>| serde_json::from_str(&line.unwrap()).unwrap();
        let left = self.lines.by_ref().map(value).find(|value: &Value| value["event"] == "left");
        (self.child.wait().unwrap().code(), left.unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn json(site: &Site, arguments: &[&str]) -> Value {
    let told = site.expect(0, &[&["--json"], arguments].concat());
    serde_json::from_str(told.lines().next().unwrap()).unwrap()
}

/// How many shards a node holds.
fn held(site: &Site, address: &str) -> u64 {
    let status = json(site, &["cluster", "status"]);
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["address"] == address).unwrap()["held"].as_u64().unwrap()
}

/// Waits until every node has its share.
fn ready(site: &Site, nodes: usize) {
    wait_until(|| {
        let status = json(site, &["cluster", "status"]);
        let even = |node: &Value| node["held"].as_u64().unwrap() >= 16 / nodes as u64;
        let all = status["nodes"].as_array().unwrap();
        status["ready"] == true && all.len() == nodes && all.iter().all(even)
    });
}

#[test]
fn an_operator_sees_a_cluster_and_moves_its_shards() {
    let site = Site::new();
    assert!(site.expect(2, &["cluster", "status"]).contains("--store"));
    let (first, second) = (Server::start(&site, &["node"]), Server::start(&site, &["node"]));
    let gate = Server::start(&site, &["gate"]);
    ready(&site, 2);
    let told = site.expect(0, &["cluster", "status"]);
    for part in [&first.address, &second.address, &gate.address, "16 shards by fnv1a32"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(told.contains("every shard is where it should be"), "{told}");
    assert!(site.expect(0, &["cluster", "plan"]).contains("nothing is to be moved"));

    // A shard of the first node goes to the second, is pinned there and let go again.
    let routed = json(&site, &["route", "shard#0/x"]);
    let (here, there) = match routed["node"] == first.address.as_str() {
        true => (&first, &second),
        false => (&second, &first),
    };
    assert_eq!(routed["node"], here.address.as_str(), "{routed}");
    assert!(site.expect(0, &["cluster", "freeze"]).contains("--undo"));
    site.expect(0, &["cluster", "move", "0", &there.address]);
    wait_until(|| {
        let routed = json(&site, &["route", "shard#0/x"]);
        // It is on its way there before.
        routed["route"] == "there" && routed["node"] == there.address.as_str()
    });
    let told = site.expect(0, &["route", "shard#0/x"]);
    assert!(told.contains("names shard 0 of 16") && told.contains("serves it"), "{told}");
    assert!(site.expect(0, &["cluster", "pin", "0"]).contains(&there.address));
    assert!(site.expect(2, &["cluster", "move", "0", &here.address]).contains("pinned"));
    site.expect(0, &["cluster", "unpin", "0"]);
    assert!(site.expect(2, &["cluster", "unpin", "0"]).contains("not pinned"));
    site.expect(0, &["cluster", "freeze", "--undo"]);

    // A node is emptied, and the plan says in a sentence what it would do about a third one.
    let told = site.expect(0, &["cluster", "drain", &here.address, "--wait"]);
    assert!(told.contains("it has nothing left"), "{told}");
    wait_until(|| held(&site, &there.address) == 16);
    assert_eq!(held(&site, &here.address), 0);
    site.expect(0, &["cluster", "freeze"]);
    site.expect(0, &["cluster", "drain", &here.address, "--undo"]);
    site.expect(0, &["cluster", "freeze", "--undo"]);
    let refused = site.expect(2, &["cluster", "move", "99", &there.address]);
    assert!(refused.contains("nothing was changed"), "{refused}");
    assert!(site.expect(2, &["cluster", "move", "0", "nobody:1"]).contains("not a member"));
}

#[test]
fn the_plan_explains_each_move_in_a_sentence() {
    let site = Site::new();
    // These two wait for a third, so that what is planned is not done.
    let _nodes = [(); 2].map(|()| Server::start(&site, &["node", "--min-quorum", "3"]));
    let told = site.expect(0, &["cluster", "plan", "--min-quorum", "3"]);
    assert!(told.contains("nothing is decided: 2 nodes are there, 3 are needed"), "{told}");
    let told = site.expect(0, &["cluster", "plan"]);
    let sentences = told.lines().filter(|line| line.ends_with(": it has no node yet"));
    assert_eq!(sentences.count(), 16, "{told}");
    let plan = json(&site, &["cluster", "plan"]);
    assert_eq!(plan["moves"].as_array().unwrap().len(), 16, "{plan}");
    assert!(site.expect(0, &["route", "a"]).contains("no node has claimed it"));
}

#[test]
fn a_node_that_is_told_to_end_hands_everything_over_and_a_second_time_ends_at_once() {
    let site = Site::new();
    let (first, second) = (Server::start(&site, &["node"]), Server::start(&site, &["node"]));
    ready(&site, 2);
    first.signal(Signal::TERM);
    let (code, events) = first.ends();
    assert_eq!(code, Some(0), "{events:?}");
    assert!(events.contains(&"draining".to_owned()), "{events:?}");
    ready(&site, 1);
    // Alone, it has nobody to hand over to; it still goes, with exit code 0.
    second.signal(Signal::INT);
    let (code, left) = second.leaves();
    assert_eq!((code, &left["released"]), (Some(0), &Value::from("16")), "{left}");

    let third = Server::start(&site, &["node"]);
    ready(&site, 1);
    let gate = Server::start(&site, &["gate"]);
    gate.signal(Signal::TERM);
    assert_eq!(gate.ends().0, Some(0));
    third.signal(Signal::TERM);
    third.signal(Signal::INT);
    assert_eq!(third.ends().0, Some(130));
}

#[test]
fn nothing_that_can_be_typed_about_clusters_ends_in_a_panic() {
    let site = Site::new();
    let _node = Server::start(&site, &["node"]);
    ready(&site, 1);
    for arguments in [
        &["cluster"] as &[&str],
        &["cluster", "status", "--cluster", "a/b"],
        &["cluster", "status", "--cluster", "other"],
        &["cluster", "status", "--shards", "32"],
        &["cluster", "status", "--hash", "md5"],
        &["cluster", "status", "--store", "memory:"],
        &["cluster", "status", "--store", "file:nowhere"],
        &["cluster", "status", "--store", "etcd://127.0.0.1:1"],
        &["cluster", "status", "--seed-format", "/"],
        &["cluster", "status", "--imbalance-threshold", "-1"],
        &["cluster", "plan", "--imbalance-threshold", "NaN"],
        &["cluster", "move", "x", "a:1"],
        &["cluster", "move", "0", ""],
        &["cluster", "move", "0", "a b"],
        &["cluster", "move", "0", "bogus"],
        &["cluster", "pin", "0", "bogus:"],
        &["cluster", "drain", "bogus"],
        &["node", "--address", "bogus"],
        &["cluster", "pin", "99999999999999999999"],
        &["cluster", "pin", "16"],
        &["cluster", "drain"],
        &["cluster", "freeze", "--undo"],
        &["node", "--listen", "nowhere"],
        &["node", "--listen", "0.0.0.0:0"],
        &["node", "--shards", "0"],
        &["node", "--session-ms", "1"],
        &["node", "--weight", "0"],
        &["gate", "--http", "256.0.0.1:0"],
        &["route", ""],
        &["route", "shard#99/x"],
        &["route", "shard#x/y"],
        &["demo", "cluster", "--events", "nonsense"],
        &["demo", "cluster", "--nodes", "0"],
        &["demo"],
    ] {
        let output = site.run(arguments);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(!told.contains("panicked"), "{arguments:?}: {told}");
        assert!(told.contains("error:") || told.contains("Usage:"), "{arguments:?}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_kept_as_existing_ones_are() {
    let etcd = EtcdCluster::single().await.unwrap();
    let store = format!("etcd://{}", etcd.address(0).unwrap());
    let site = Site::new();
    let told = tokio::task::spawn_blocking(move || {
        let place = ["--store", &store, "--seed-format", "/goverse"];
        let node = Server::start(&site, &[&["node"], &place[..]].concat());
        let status = [&["cluster", "status"], &place[..]].concat();
        wait_until(|| json(&site, &status)["ready"] == true);
        site.expect(0, &[&["cluster", "pin", "3"], &place[..]].concat());
        let told = site.expect(0, &[&["route", "shard#3/x"], &place[..]].concat());
        assert!(told.contains(&node.address), "{told}");
        // It is the same cluster, whatever it is called.
        let renamed = [&["cluster", "status", "--cluster", "other"], &place[..]].concat();
        assert_eq!(json(&site, &renamed)["nodes"][0]["address"], node.address.as_str());
        let missing = ["cluster", "status", "--store", &store, "--seed-format", "/other"];
        assert!(site.expect(2, &missing).contains("there is no cluster below /other"));
        (node.address.clone(), site, store)
    });
    let (address, site, store) = told.await.unwrap();
    // As others read it, who know nothing of us.
    let others = EtcdStore::connect(etcd.options().namespace("/goverse/")).await.unwrap();
    let stored = others.load(&[Key::from("shard/3")]).await.unwrap();
    let value = &stored.values[0].as_ref().unwrap().value;
    assert_eq!(text(value), format!("{address},{address},f=pinned"));

    // The keys of a cluster that others made tell who looks how many shards it has. Whoever would
    // decide it has to say it: there may be more to come.
    let whole = EtcdStore::connect(etcd.options().namespace("/")).await.unwrap();
    for number in 0..64 {
        let key = Key::from(format!("legacy/shard/{number}"));
        let commit = Commit::builder().expect(key.clone(), Expect::Absent).put(key, "n1:1,n1:1");
        whole.commit(commit.build().unwrap()).await.unwrap();
    }
    let looked = tokio::task::spawn_blocking(move || {
        let place = ["--store", &store, "--seed-format", "/legacy"];
        let status = json(&site, &[&["cluster", "status"], &place[..]].concat());
        assert_eq!((&status["shards"], &status["unclaimed"]), (&64.into(), &64.into()), "{status}");
        for look in [&["cluster", "plan"][..], &["route", "x"]] {
            site.expect(0, &[look, &place[..]].concat());
        }
        for node in [&["node"][..], &["gate"]] {
            let told = site.expect(2, &[node, &place[..]].concat());
            assert!(told.contains("64 shards or more") && told.contains("--shards"), "{told}");
        }
        let fewer = [&["node", "--shards", "63"], &place[..]].concat();
        assert!(site.expect(2, &fewer).contains("64"));
    });
    looked.await.unwrap();
    let plan = whole.load(&[Key::from("shardwright/text/legacy/plan")]).await.unwrap();
    assert!(plan.values[0].is_none());
}

/// Adds to a counter, and gives what is answered.
fn add(gate: &Server, counter: &str, amount: &str) -> String {
    let mut stream = TcpStream::connect(gate.http.as_ref().unwrap()).unwrap();
    let length = amount.len();
    write!(
        stream,
        "POST /call/Counter/{counter}/add HTTP/1.1\r\nhost: gate\r\nconnection: close\r\n\
         timeout-ms: 30000\r\ncontent-length: {length}\r\n\r\n{amount}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn clusters_in_one_store_count_for_themselves_however_they_are_kept() {
    let site = Site::new();
    let text = |prefix: &'static str| vec!["--seed-format", prefix];
    let brief = ["node", "--session-ms", "1000"];
    for (place, amount) in [
        (text("/goverse"), "5"),
        (text("/legacy"), "7"),
        (text("/legacy/goverse"), "11"),
        (vec![], "13"),
        (vec!["--cluster", "goverse"], "17"),
    ] {
        let _node = Server::start(&site, &[&brief[..], &place].concat());
        let gate = Server::start(&site, &[&["gate"], &place[..]].concat());
        assert_eq!(add(&gate, "visits", amount), amount, "{place:?}");
    }
    // It is the same cluster, whatever it is called.
    let renamed = ["--seed-format", "/legacy", "--cluster", "other"];
    let _node = Server::start(&site, &[&brief[..], &renamed[..]].concat());
    let gate = Server::start(&site, &[&["gate"], &renamed[..]].concat());
    assert_eq!(add(&gate, "visits", "1"), "8");
}

#[test]
fn a_cluster_whose_nodes_are_all_gone_is_not_ready() {
    let site = Site::new();
    let node = Server::start(&site, &["node", "--session-ms", "1000"]);
    ready(&site, 1);
    node.signal(Signal::KILL);
    wait_until(|| json(&site, &["cluster", "status"])["ready"] == false);
    let status = json(&site, &["cluster", "status"]);
    assert_eq!(status["unclaimed"], 16, "{status}");
    assert_eq!(status["unsettled"][0]["current_is_member"], false, "{status}");
    let told = site.expect(0, &["cluster", "status"]);
    assert!(told.contains(&format!("unclaimed since {} is gone", node.address)), "{told}");
}

#[test]
fn an_operator_waits_for_a_node_to_be_emptied_only_so_long() {
    let site = Site::new();
    let flags = ["--balance-load", "--in-flight-per-node", "4", "--in-flight", "8"];
    let arguments = [&["node", "--pin-policy", "wait"], &flags[..]].concat();
    let node = Server::start(&site, &arguments);
    ready(&site, 1);
    // Nobody else is there who could take anything.
    let drain = ["cluster", "drain", &node.address, "--wait", "--timeout-ms", "300"];
    assert!(site.expect(1, &drain).contains("the time is over, and it still has 16 shards"));
    site.expect(0, &["cluster", "drain", &node.address, "--undo"]);
    // Whoever waits without an end learns at once what keeps it.
    site.expect(0, &["cluster", "pin", "3"]);
    let endless = ["cluster", "drain", &node.address, "--wait"];
    let mut waiting = site.command(&endless).stdout(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(waiting.stdout.take().unwrap()).lines();
    for part in ["is to be emptied", "it still has 16 shards", "1 are pinned", "nobody can take"] {
        let line = told.next().unwrap().unwrap();
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(waiting.try_wait().unwrap().is_none());
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    let told = site.expect(0, &["cluster", "drain", &node.address]);
    assert!(told.contains("emptied already") && told.contains("nobody can take them"), "{told}");
    site.expect(0, &["cluster", "drain", &node.address, "--undo"]);
    // Of one that is no member, it is said what comes of it, and not the contrary as well.
    let told = site.expect(0, &["cluster", "drain", "127.0.0.1:1"]);
    assert!(told.contains("it gets no shards when it comes"), "{told}");
    let told = site.expect(0, &["cluster", "drain", "127.0.0.1:1", "--undo"]);
    assert_eq!(told, "127.0.0.1:1 may have shards again\n");
    assert!(site.expect(2, &["cluster", "drain", "x:1", "--timeout-ms", "3"]).contains("--wait"));
    assert!(site.expect(2, &["node", "--pin-policy", "glue"]).contains("`spill` or `wait`"));
}
