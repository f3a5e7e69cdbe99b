//! The commands with which an operator inspects and changes a cluster.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;
use shardwright_store::etcd::EtcdStore;
use shardwright_store::testing::EtcdCluster;
use shardwright_store::{Commit, Expect, Key, Store as _};

use crate::server::{Server, held_shards, json, wait_until_ready};
use crate::support::{Site, text, wait_until};

#[test]
fn operator_moves_pins_and_drains_shards() {
    let site = Site::new();
    assert!(site.expect(2, &["cluster", "status"]).contains("--store"));
    let (first, second) = (Server::start(&site, &["node"]), Server::start(&site, &["node"]));
    let gate = Server::start(&site, &["gate"]);
    wait_until_ready(&site, 2);
    let printed = site.expect(0, &["cluster", "status"]);
    for part in [&first.address, &second.address, &gate.address, "16 shards by fnv1a32"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(printed.contains("every shard is on its target node"), "{printed}");
    assert!(site.expect(0, &["cluster", "plan"]).contains("no shards to move"));

    // Shard 0 is moved to the other node, pinned there, and unpinned.
    let routed = json(&site, &["route", "shard#0/x"]);
    let (source, target) = match routed["node"] == first.address.as_str() {
        true => (&first, &second),
        false => (&second, &first),
    };
    assert_eq!(routed["node"], source.address.as_str(), "{routed}");
    assert!(site.expect(0, &["cluster", "freeze"]).contains("--undo"));
    site.expect(0, &["cluster", "move", "0", &target.address]);
    wait_until(|| {
        let routed = json(&site, &["route", "shard#0/x"]);
        // While the shard moves, the route is `moving` and already names the target.
        routed["route"] == "there" && routed["node"] == target.address.as_str()
    });
    let of_shard = json(&site, &["route", "--shard", "0"]);
    assert_eq!(
        (&of_shard["node"], &of_shard["shard"]),
        (&target.address.as_str().into(), &0.into())
    );
    let printed = site.expect(0, &["route", "shard#0/x"]);
    assert!(printed.contains("names shard 0 of 16") && printed.contains("serves it"), "{printed}");
    assert!(site.expect(0, &["cluster", "pin", "0"]).contains(&target.address));
    assert!(site.expect(2, &["cluster", "move", "0", &source.address]).contains("pinned"));
    site.expect(0, &["cluster", "unpin", "0"]);
    assert!(site.expect(2, &["cluster", "unpin", "0"]).contains("not pinned"));
    site.expect(0, &["cluster", "freeze", "--undo"]);

    // A drain moves all shards to the other node.
    let printed = site.expect(0, &["cluster", "drain", &source.address, "--wait"]);
    assert!(printed.contains("the node has no shards left"), "{printed}");
    wait_until(|| held_shards(&site, &target.address) == 16);
    assert_eq!(held_shards(&site, &source.address), 0);
    site.expect(0, &["cluster", "freeze"]);
    site.expect(0, &["cluster", "drain", &source.address, "--undo"]);
    site.expect(0, &["cluster", "freeze", "--undo"]);
    let refused = site.expect(2, &["cluster", "move", "99", &target.address]);
    assert!(refused.contains("nothing was changed"), "{refused}");
    assert!(site.expect(2, &["cluster", "move", "0", "unknown:1"]).contains("not a member"));
}

#[test]
fn plan_states_the_reason_for_each_move() {
    let site = Site::new();
    // The two nodes wait for a third, so that planned moves do not start.
    let _nodes = [(); 2].map(|()| Server::start(&site, &["node", "--min-quorum", "3"]));
    let printed = site.expect(0, &["cluster", "plan", "--min-quorum", "3"]);
    assert!(printed.contains("nothing is planned: there are 2 nodes, 3 are needed"), "{printed}");
    let printed = site.expect(0, &["cluster", "plan"]);
    let moves = printed.lines().filter(|line| line.ends_with(": it has no node yet"));
    assert_eq!(moves.count(), 16, "{printed}");
    let plan = json(&site, &["cluster", "plan"]);
    assert_eq!(plan["moves"].as_array().unwrap().len(), 16, "{plan}");
    assert!(site.expect(0, &["route", "a"]).contains("no node has claimed it"));
}

#[test]
fn first_signal_hands_shards_over_and_second_one_exits_at_once() {
    let site = Site::new();
    let (first, second) = (Server::start(&site, &["node"]), Server::start(&site, &["node"]));
    wait_until_ready(&site, 2);
    first.signal(Signal::TERM);
    let (code, events) = first.wait_for_events();
    assert_eq!(code, Some(0), "{events:?}");
    assert!(events.contains(&"draining".to_owned()), "{events:?}");
    wait_until_ready(&site, 1);
    // The last node cannot hand over its shards. It releases them and exits with 0.
    second.signal(Signal::INT);
    let (code, left) = second.wait_for_left();
    assert_eq!((code, &left["released"]), (Some(0), &Value::from("16")), "{left}");

    let third = Server::start(&site, &["node"]);
    wait_until_ready(&site, 1);
    let gate = Server::start(&site, &["gate"]);
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait_for_events().0, Some(0));
    third.signal(Signal::TERM);
    third.signal(Signal::INT);
    assert_eq!(third.wait_for_events().0, Some(130));
}

#[test]
fn invalid_cluster_arguments_are_errors_and_not_panics() {
    let site = Site::new();
    let _node = Server::start(&site, &["node"]);
    wait_until_ready(&site, 1);
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
        &["route"],
        &["route", "--shard", "16"],
        &["route", "x", "--shard", "0"],
        &["cluster", "create"],
        &["cluster", "delete"],
        &["cluster", "create", "--seed-format", "/text", "--hash", "avalanche64"],
        &["demo", "cluster", "--events", "nonsense"],
        &["demo", "cluster", "--nodes", "0"],
        &["demo"],
    ] {
        let output = site.run(arguments);
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {printed}");
        assert!(!printed.contains("panicked"), "{arguments:?}: {printed}");
        assert!(
            printed.contains("error:") || printed.contains("Usage:"),
            "{arguments:?}: {printed}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_in_the_seed_format_is_readable_by_other_programs() {
    let etcd = EtcdCluster::single().await.unwrap();
    let store = format!("etcd://{}", etcd.address(0).unwrap());
    let site = Site::new();
    let started = tokio::task::spawn_blocking(move || {
        let location = ["--store", &store, "--seed-format", "/goverse"];
        let node = Server::start(&site, &[&["node"], &location[..]].concat());
        let status = [&["cluster", "status"], &location[..]].concat();
        wait_until(|| json(&site, &status)["ready"] == true);
        site.expect(0, &[&["cluster", "pin", "3"], &location[..]].concat());
        let printed = site.expect(0, &[&["route", "shard#3/x"], &location[..]].concat());
        assert!(printed.contains(&node.address), "{printed}");
        // The prefix identifies the cluster, and --cluster only names it.
        let renamed = [&["cluster", "status", "--cluster", "other"], &location[..]].concat();
        assert_eq!(json(&site, &renamed)["nodes"][0]["address"], node.address.as_str());
        let missing = ["cluster", "status", "--store", &store, "--seed-format", "/other"];
        assert!(site.expect(2, &missing).contains("no cluster below /other"));
        (node.address.clone(), site, store)
    });
    let (address, site, store) = started.await.unwrap();
    // Another program reads the key of a shard as text.
    let other = EtcdStore::connect(etcd.options().namespace("/goverse/")).await.unwrap();
    let stored = other.load(&[Key::from("shard/3")]).await.unwrap();
    let value = &stored.values[0].as_ref().unwrap().value;
    assert_eq!(text(value), format!("{address},{address},f=pinned"));

    // A cluster of another program stores no number of shards. Commands that read infer it from
    // the keys. Nodes and gates store it permanently, and more keys may follow, so they need
    // --shards.
    let legacy = EtcdStore::connect(etcd.options().namespace("/")).await.unwrap();
    for number in 0..64 {
        let key = Key::from(format!("legacy/shard/{number}"));
        let commit = Commit::builder().expect(key.clone(), Expect::Absent).put(key, "n1:1,n1:1");
        legacy.commit(commit.build().unwrap()).await.unwrap();
    }
    let inspected = tokio::task::spawn_blocking(move || {
        let location = ["--store", &store, "--seed-format", "/legacy"];
        let status = json(&site, &[&["cluster", "status"], &location[..]].concat());
        assert_eq!((&status["shards"], &status["unclaimed"]), (&64.into(), &64.into()), "{status}");
        for reading in [&["cluster", "plan"][..], &["route", "x"]] {
            site.expect(0, &[reading, &location[..]].concat());
        }
        for writing in [&["node"][..], &["gate"]] {
            let printed = site.expect(2, &[writing, &location[..]].concat());
            assert!(
                printed.contains("at least 64 shards") && printed.contains("--shards"),
                "{printed}"
            );
        }
        let fewer = [&["node", "--shards", "63"], &location[..]].concat();
        assert!(site.expect(2, &fewer).contains("64"));
    });
    inspected.await.unwrap();
    let plan = legacy.load(&[Key::from("shardwright/text/legacy/plan")]).await.unwrap();
    assert!(plan.values[0].is_none());
}

/// Adds to a counter over HTTP, and returns the body of the response.
fn add(gate: &Server, counter: &str, amount: &str) -> String {
    let address = gate.http.as_ref().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = amount.len();
    write!(
        stream,
        "POST /call/Counter/{counter}/add HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         timeout-ms: 30000\r\ncontent-length: {length}\r\n\r\n{amount}"
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn clusters_in_one_store_have_separate_counters() {
    let site = Site::new();
    let seed_format = |prefix: &'static str| vec!["--seed-format", prefix];
    let node = ["node", "--session-ms", "1000"];
    for (location, amount) in [
        (seed_format("/goverse"), "5"),
        (seed_format("/legacy"), "7"),
        (seed_format("/legacy/goverse"), "11"),
        (vec![], "13"),
        (vec!["--cluster", "goverse"], "17"),
    ] {
        let _node = Server::start(&site, &[&node[..], &location].concat());
        let gate = Server::start(&site, &[&["gate"], &location[..]].concat());
        assert_eq!(add(&gate, "visits", amount), amount, "{location:?}");
    }
    // The prefix identifies the cluster, and --cluster only names it.
    let renamed = ["--seed-format", "/legacy", "--cluster", "other"];
    let _node = Server::start(&site, &[&node[..], &renamed[..]].concat());
    let gate = Server::start(&site, &[&["gate"], &renamed[..]].concat());
    assert_eq!(add(&gate, "visits", "1"), "8");
}

#[test]
fn cluster_is_created_once_and_deleted_when_it_is_empty() {
    let site = Site::new();
    let printed = site.expect(0, &["cluster", "create", "--shards", "16"]);
    assert!(printed.contains("created cluster main: 16 shards, hash fnv1a32"), "{printed}");
    let printed = site.expect(2, &["cluster", "create", "--shards", "32"]);
    assert!(printed.contains("exists, with 16 shards") && printed.contains("cluster delete"));
    // The error names both numbers and the remedy.
    let printed = site.expect(2, &["node", "--shards", "32"]);
    for part in ["16 shards", "expects 32", "--shards 16", "cluster delete --cluster main"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let printed = site.expect(2, &["node", "--hash", "avalanche64"]);
    assert!(printed.contains("--hash fnv1a32"), "{printed}");

    let node = Server::start(&site, &["node", "--session-ms", "1000"]);
    let printed = site.expect(2, &["cluster", "delete"]);
    assert!(printed.contains("has members") && printed.contains(&node.address), "{printed}");
    drop(node);
    wait_until(|| json(&site, &["cluster", "status"])["nodes"].as_array().unwrap().is_empty());
    assert!(site.expect(0, &["cluster", "delete"]).contains("deleted cluster main"));
    assert!(site.expect(2, &["cluster", "delete"]).contains("no cluster main"));
    let printed = site.expect(2, &["cluster", "status"]);
    assert!(printed.contains("cluster create") && printed.contains("shardwright node"));
    assert_eq!(json(&site, &["cluster", "create", "--shards", "32"])["shards"], 32);
}

#[test]
fn only_a_node_that_listens_creates_a_cluster() {
    let site = Site::new();
    site.expect(2, &["node", "--listen", "256.0.0.1:0"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    site.expect(2, &["gate", "--http", &taken]);
    // A gate waits for the cluster instead of fixing its number of shards.
    let gate = site.command(&["--json", "gate"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut gate = Server::of(gate);
    assert_eq!(gate.event()["event"], "waiting");
    assert!(site.expect(2, &["cluster", "status"]).contains("no cluster main"));
    let _node = Server::start(&site, &["node"]);
    assert_eq!(gate.event()["event"], "open");
    assert_eq!(json(&site, &["cluster", "status"])["shards"], 16);
}

#[test]
fn cluster_without_nodes_is_not_ready() {
    let site = Site::new();
    let node = Server::start(&site, &["node", "--session-ms", "1000"]);
    wait_until_ready(&site, 1);
    node.signal(Signal::KILL);
    wait_until(|| json(&site, &["cluster", "status"])["ready"] == false);
    let status = json(&site, &["cluster", "status"]);
    assert_eq!(status["unclaimed"], 16, "{status}");
    assert_eq!(status["unsettled"][0]["current_is_member"], false, "{status}");
    let printed = site.expect(0, &["cluster", "status"]);
    assert!(
        printed.contains(&format!("unclaimed, its node {} is gone", node.address)),
        "{printed}"
    );
}

#[test]
fn drain_wait_times_out_and_names_what_keeps_the_shards() {
    let site = Site::new();
    let flags = ["--balance-load", "--in-flight-per-node", "4", "--in-flight", "8"];
    let arguments = [&["node", "--pin-policy", "wait"], &flags[..]].concat();
    let node = Server::start(&site, &arguments);
    wait_until_ready(&site, 1);
    // No other node can serve the shards.
    let drain = ["cluster", "drain", &node.address, "--wait", "--timeout-ms", "300"];
    assert!(site.expect(1, &drain).contains("timed out: the node still holds 16 shards"));
    site.expect(0, &["cluster", "drain", &node.address, "--undo"]);
    // Without a timeout, the command prints at once why the shards stay.
    site.expect(0, &["cluster", "pin", "3"]);
    let without_timeout = ["cluster", "drain", &node.address, "--wait"];
    let mut waiting = site.command(&without_timeout).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(waiting.stdout.take().unwrap()).lines();
    for part in
        ["draining ", "the node holds 16 shards", "1 of them are pinned", "no other node can"]
    {
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(waiting.try_wait().unwrap().is_none());
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    let printed = site.expect(0, &["cluster", "drain", &node.address]);
    assert!(
        printed.contains("is already being drained") && printed.contains("no other node can serve"),
        "{printed}"
    );
    site.expect(0, &["cluster", "drain", &node.address, "--undo"]);
    // For a node that is not a member, the output states only the effect on its next join.
    let printed = site.expect(0, &["cluster", "drain", "127.0.0.1:1"]);
    assert!(printed.contains("it gets no shards when it joins"), "{printed}");
    let printed = site.expect(0, &["cluster", "drain", "127.0.0.1:1", "--undo"]);
    assert_eq!(printed, "127.0.0.1:1 may get shards again\n");
    assert!(site.expect(2, &["cluster", "drain", "x:1", "--timeout-ms", "3"]).contains("--wait"));
    assert!(site.expect(2, &["node", "--pin-policy", "glue"]).contains("`spill` or `wait`"));
}
