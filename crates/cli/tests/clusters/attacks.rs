//! More attacks of peers that are not trusted, also on the port of a node.

use std::net::SocketAddr;
use std::time::Duration;

use shardwright_api::wire::gate::gate_client::GateClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tonic::transport::Endpoint;

use crate::hostile::{
    GOOD, GoodClient, SHORT, SOON, UnfinishedMessages, World, add_head, all_closed, connect, http,
    memory, only_256_stay_open, open_many, request,
};

const NODE: &str = "shardwright.node.v1.Node";
const MIB: u64 = 1 << 20;

/// Reads what the peer sends until it closes the connection.
async fn read_all(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A peer that closes with unread bytes resets the connection.
    let _reset = timeout(SOON, stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_on_the_port_of_a_node_fail_no_call() {
    let timeouts = ["--handshake-timeout-ms", "4000", "--body-timeout-ms", "6000"];
    let of_node = [&["--bytes-in-flight", "134217728"], &timeouts[..]].concat();
    let world = World::start_both(&of_node, &[]);
    let good = GoodClient::start(&world).await;
    let before = memory(&world.node.child, "VmRSS");
    let node: SocketAddr = world.node.address.parse().unwrap();
    let mut idle = open_many(1_000, "127.0.0.2", node, b"").await;
    only_256_stay_open(&mut idle).await;
    let mut streams = open_many(100, "127.0.0.3", node, b"PRI * HTTP/2").await;
    streams.extend(open_many(50, "127.0.0.3", node, &[0; 64]).await);
    let messages = UnfinishedMessages::send("127.0.0.4", node, NODE);
    for _ in 0..100 {
        let mut stream = connect("127.0.0.5", node).await.unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        stream.set_zero_linger().unwrap();
    }
    good.answered(20).await;
    all_closed(&mut streams).await;
    all_closed(&mut idle).await;
    // An address gets half of what others leave free of 128 MiB.
    assert_eq!(messages.refused().await, UnfinishedMessages::COUNT - 16);
    let grown = (memory(&world.node.child, "VmHWM") - before) / MIB;
    assert!(grown < 64 + 64, "the node has grown by {grown} MiB");
    good.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_headers_are_refused() {
    let world = World::start(&["--header-timeout-ms", SHORT]);
    let good = GoodClient::start(&world).await;
    let before = memory(&world.gate.child, "VmRSS");
    let web = world.http();
    let many: String = (0..100).map(|number| format!("x-{number}: 1\r\n")).collect();
    let large = format!("x: {}\r\n", "1".repeat(32 << 10));
    for headers in [many, large] {
        let mut stream = connect("127.0.0.2", web).await.unwrap();
        let head = format!("{}\r\n{headers}\r\n", add_head(web));
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = read_all(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    // Headers without an end are not kept.
    for _ in 0..100 {
        let mut stream = connect("127.0.0.2", web).await.unwrap();
        stream.write_all(add_head(web).as_bytes()).await.unwrap();
        let line = format!("\r\nx: {}", "1".repeat(4 << 10));
        while stream.write_all(line.as_bytes()).await.is_ok() {}
    }
    let endpoint = Endpoint::from_shared(format!("http://{}", world.grpc())).unwrap();
    let mut client = GateClient::new(endpoint.connect().await.unwrap());
    let mut call = request("a", "1");
    call.metadata_mut().insert("x", "1".repeat(32 << 10).parse().unwrap());
    let refused = timeout(SOON, client.call(call)).await.unwrap();
    assert!(refused.is_err(), "{refused:?}");
    let grown = (memory(&world.gate.child, "VmHWM") - before) / MIB;
    assert!(grown < 32, "the gate has grown by {grown} MiB");
    good.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_answers_close_their_connection() {
    let world = World::start(&["--answer-timeout-ms", SHORT]);
    let good = GoodClient::start(&world).await;
    let before = memory(&world.gate.child, "VmRSS");
    let web = world.http();
    let health = format!("GET /healthz HTTP/1.1\r\nhost: {web}\r\n\r\n").repeat(1_000);
    let attackers: Vec<_> = (0..10)
        .map(|_| {
            let health = health.clone();
            tokio::spawn(async move {
                let mut stream = connect("127.0.0.2", web).await.unwrap();
                while stream.write_all(health.as_bytes()).await.is_ok() {}
            })
        })
        .collect();
    for attacker in attackers {
        timeout(4 * SOON, attacker).await.expect("the connection is closed").unwrap();
    }
    let grown = (memory(&world.gate.child, "VmHWM") - before) / MIB;
    assert!(grown < 64, "the gate has grown by {grown} MiB");
    good.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chunked_body_without_an_end_is_refused() {
    let world = World::start(&["--body-timeout-ms", SHORT]);
    let good = GoodClient::start(&world).await;
    let web = world.http();
    let head = format!("{}\r\ntransfer-encoding: chunked\r\n\r\n", add_head(web));
    // As fast as possible: too large.
    let mut fast = connect("127.0.0.2", web).await.unwrap();
    fast.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", "1".repeat(0x1_0000));
    let (mut read, mut write) = fast.into_split();
    let writing =
        tokio::spawn(async move { while write.write_all(chunk.as_bytes()).await.is_ok() {} });
    let mut answer = [0; 1_024];
    let size = timeout(SOON, read.read(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer[..size]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    timeout(SOON, writing).await.expect("the connection is closed").unwrap();
    // Slowly: late.
    let mut slow = connect("127.0.0.2", web).await.unwrap();
    slow.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut write) = slow.into_split();
    let writing = tokio::spawn(async move {
        while write.write_all(b"1\r\n1\r\n").await.is_ok() {
            sleep(Duration::from_millis(50)).await;
        }
    });
    let mut answer = [0; 1_024];
    let size = timeout(SOON, read.read(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer[..size]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    timeout(SOON, writing).await.expect("the connection is closed").unwrap();
    good.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reset_connections_fail_no_other_call() {
    let world = World::start(&[]);
    let good = GoodClient::start(&world).await;
    let (grpc, web) = (world.grpc(), world.http());
    for round in 0..20 {
        // Calls that wait for one object, and end with their connection.
        let endpoint = Endpoint::from_shared(format!("http://{grpc}")).unwrap();
        let endpoint = endpoint.local_address(Some("127.0.0.2".parse().unwrap()));
        let client = GateClient::new(endpoint.connect().await.unwrap());
        let calls: Vec<_> = (0..200)
            .map(|_| {
                let mut client = client.clone();
                tokio::spawn(async move { client.call(request("reset", "1")).await })
            })
            .collect();
        good.answered(2).await;
        calls.iter().for_each(|call| call.abort());
        drop((client, calls));
        let body = format!("{}\r\ncontent-length: 9\r\n\r\n1", add_head(web));
        for stream in open_many(10, "127.0.0.3", web, body.as_bytes()).await {
            stream.set_zero_linger().unwrap();
        }
        let (status, body) = http(GOOD, web, &add_head(web), b"1").await;
        assert_eq!(status, 200, "round {round}: {body}");
    }
    good.end().await;
}
