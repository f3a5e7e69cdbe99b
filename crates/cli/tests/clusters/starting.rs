//! Nodes and gates that wait: for a cluster, for a session, for the store.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;
use shardwright_store::testing::EtcdCluster;

use crate::hostile::{GOOD, add_head, http};
use crate::server::Server;
use crate::support::{Site, wait_until};

/// A port that is free at the moment.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Requests a path of a gate, and returns the status and the error, if it is one.
async fn get(web: SocketAddr, path: &str) -> (u16, Value) {
    let head = format!("GET {path} HTTP/1.1\r\nhost: {web}");
    let (status, body) = http(GOOD, web, &head, b"").await;
    (status, serde_json::from_str(&body).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_waits_for_its_cluster_holds_calls() {
    let site = Site::new();
    let port = free_port();
    let arguments = ["--json", "gate", "--http", &port];
    let mut gate = Server::of(site.command(&arguments).stdout(Stdio::piped()).spawn().unwrap());
    assert_eq!(gate.event()["event"], "waiting");
    let web: SocketAddr = port.parse().unwrap();
    assert_eq!(get(web, "/healthz").await.0, 200);
    let (status, problem) = get(web, "/readyz").await;
    assert_eq!((status, &problem["code"]), (503, &"NOT_READY".into()), "{problem}");
    assert!(problem["message"].is_string() && problem["executed"] == "no", "{problem}");
    let short = add_head(web).replace("timeout-ms: 20000", "timeout-ms: 50");
    assert!(short.contains("timeout-ms: 50"), "{short}");
    let (status, body) = http(GOOD, web, &short, b"1").await;
    let problem: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &problem["code"]), (504, &"LATE".into()), "{problem}");
    assert_eq!(problem["executed"], "no");

    let held = tokio::spawn(async move { http(GOOD, web, &add_head(web), b"1").await });
    let _node = Server::start(&site, &["node"]);
    assert_eq!(gate.event()["event"], "open");
    assert_eq!(held.await.unwrap(), (200, "1".to_owned()));
    assert_eq!(get(web, "/readyz").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_waits_to_join_fails_no_call() {
    // Only the end of its session shows this store that a process was killed.
    let etcd = EtcdCluster::single().await.unwrap();
    let store = format!("etcd://{}", etcd.address(0).unwrap());
    let site = Site::new();
    let port = free_port();
    let node = ["node", "--store", &store, "--listen", &port, "--session-ms", "4000"];
    let first = Server::start(&site, &node);
    let gate = Server::start(&site, &["gate", "--store", &store]);
    let web: SocketAddr = gate.http.as_ref().unwrap().parse().unwrap();
    assert_eq!(http(GOOD, web, &add_head(web), b"1").await.0, 200);
    first.signal(Signal::KILL);
    drop(first);
    // The next process has the same address, and waits for the session of the first to expire.
    let second = Killed(site.command(&node).stdout(Stdio::null()).spawn().unwrap());
    wait_until(|| TcpStream::connect(&port).is_ok());
    let (status, body) = http(GOOD, web, &add_head(web), b"1").await;
    assert_eq!((status, body.as_str()), (200, "2"));
    drop(second);
}

/// A process that is killed at the end.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _waited = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_without_its_store_is_not_ready() {
    let mut etcd = EtcdCluster::single().await.unwrap();
    let store = format!("etcd://{}", etcd.address(0).unwrap());
    let site = Site::new();
    let _node = Server::start(&site, &["node", "--store", &store]);
    let gate = Server::start(&site, &["gate", "--store", &store]);
    let web: SocketAddr = gate.http.as_ref().unwrap().parse().unwrap();
    is_ready(web, 200).await;
    etcd.kill(0).unwrap();
    let problem = is_ready(web, 503).await;
    assert_eq!((&problem["code"], &problem["executed"]), (&"NOT_READY".into(), &"no".into()));
    assert_eq!(get(web, "/healthz").await.0, 200, "the process runs");
    etcd.restart(0).await.unwrap();
    is_ready(web, 200).await;
}

/// Waits until `/readyz` returns a status, and returns the error.
async fn is_ready(web: SocketAddr, expected: u16) -> Value {
    let began = std::time::Instant::now();
    loop {
        let (status, problem) = get(web, "/readyz").await;
        if status == expected {
            return problem;
        }
        assert!(began.elapsed().as_secs() < 60, "{status}: {problem}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
