//! What the network sends is not trusted. Hostile peers have their own loopback addresses. A good
//! client at 127.0.0.1 calls meanwhile, and no call of it may fail.

use std::fs;
use std::net::SocketAddr;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use serde_json::Value;
use shardwright_api::wire::gate::CallRequest;
use shardwright_api::wire::gate::gate_client::GateClient;
use shardwright_api::{CallError, error_of_status};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::transport::Endpoint;

use crate::server::{Server, wait_until_ready};
use crate::support::Site;

pub(crate) const GOOD: &str = "127.0.0.1";
/// The largest payload.
const LARGE: usize = 4 << 20;
const MIB: u64 = 1 << 20;
/// The timeouts of the tests, in milliseconds.
pub(crate) const SHORT: &str = "1500";
/// Far more than [`SHORT`], and far less than any default.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// More than the timeout of any call.
const PATIENCE: Duration = Duration::from_secs(30);

/// A node and a gate.
pub(crate) struct World {
    _site: Site,
    pub(crate) node: Server,
    pub(crate) gate: Server,
}

impl World {
    /// Starts a gate with options.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_both(&[], flags)
    }

    /// Starts a node and a gate with options.
    pub(crate) fn start_both(of_node: &[&str], of_gate: &[&str]) -> Self {
        let site = Site::new();
        let node = Server::start(&site, &[&["node"], of_node].concat());
        let gate = Server::start(&site, &[&["gate"], of_gate].concat());
        wait_until_ready(&site, 1);
        Self { _site: site, node, gate }
    }

    pub(crate) fn grpc(&self) -> SocketAddr {
        self.gate.address.parse().unwrap()
    }

    pub(crate) fn http(&self) -> SocketAddr {
        self.gate.http.as_ref().unwrap().parse().unwrap()
    }
}

/// The memory of a process in bytes: `VmRSS`, or its peak `VmHWM`.
pub(crate) fn memory(process: &Child, kind: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(kind)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// The number of open files of a process.
fn files(process: &Child) -> usize {
    fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap().count()
}

/// The processor time of a process.
fn cpu_time(process: &Child) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|one| one.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Waits for a condition, and lets other tasks run.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap();
}

pub(crate) async fn connect(from: &str, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
    socket.connect(to).await
}

/// Opens many connections, and sends something on each.
pub(crate) async fn open_many(
    count: usize,
    from: &str,
    to: SocketAddr,
    bytes: &[u8],
) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..count {
        // A refused connection may be reset before its first byte.
        let Ok(mut stream) = connect(from, to).await else { continue };
        if stream.write_all(bytes).await.is_ok() {
            streams.push(stream);
        }
    }
    streams
}

/// Whether the peer has closed a connection.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut byte = [0; 4096];
    loop {
        match timeout(Duration::from_millis(1), stream.read(&mut byte)).await {
            Err(_open) => return false,
            Ok(Ok(0) | Err(_)) => return true,
            Ok(Ok(_)) => {}
        }
    }
}

pub(crate) async fn count_open(streams: &mut [TcpStream]) -> usize {
    let mut open = 0;
    for stream in streams {
        open += usize::from(!is_closed(stream).await);
    }
    open
}

/// Waits until all connections are closed.
pub(crate) async fn all_closed(streams: &mut [TcpStream]) {
    let began = Instant::now();
    while count_open(streams).await > 0 {
        assert!(began.elapsed() < SOON, "{} are open", count_open(streams).await);
        sleep(Duration::from_millis(50)).await;
    }
}

/// Sends a request over HTTP, and returns the code and the body of the answer.
pub(crate) async fn http(from: &str, to: SocketAddr, head: &str, body: &[u8]) -> (u16, String) {
    timeout(PATIENCE, exchange(from, to, head, body)).await.unwrap()
}

async fn exchange(from: &str, to: SocketAddr, head: &str, body: &[u8]) -> (u16, String) {
    let mut stream = connect(from, to).await.unwrap();
    let length = body.len();
    let head = format!("{head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

pub(crate) fn add_head(to: SocketAddr) -> String {
    format!("POST /call/Counter/http/add HTTP/1.1\r\nhost: {to}\r\ntimeout-ms: 20000")
}

/// Calls all the time over gRPC and HTTP, and fails if one call fails.
pub(crate) struct GoodClient {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Vec<Duration>>>,
    answered: Arc<AtomicU64>,
}

impl GoodClient {
    /// Returns after the first calls were answered.
    pub(crate) async fn start(world: &World) -> Self {
        let good = Self::begin(world);
        good.answered(20).await;
        good
    }

    /// Waits until this many more calls are answered.
    pub(crate) async fn answered(&self, more: u64) {
        let before = self.answered.load(Ordering::Relaxed);
        until(|| self.answered.load(Ordering::Relaxed) >= before + more).await;
    }

    fn begin(world: &World) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let (grpc, web) = (world.grpc(), world.http());
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&answered));
        let over_grpc = tokio::spawn(async move {
            let endpoint = Endpoint::from_shared(format!("http://{grpc}")).unwrap();
            let mut client = GateClient::new(endpoint.connect().await.unwrap());
            let mut took = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let began = Instant::now();
                let object = format!("good-{}", took.len() % 50);
                let called = timeout(PATIENCE, client.call(request(&object, "1")));
                called.await.unwrap().unwrap();
                took.push(began.elapsed());
                count.fetch_add(1, Ordering::Relaxed);
            }
            took
        });
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&answered));
        let over_http = tokio::spawn(async move {
            let mut took = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let began = Instant::now();
                let (status, body) = http(GOOD, web, &add_head(web), b"1").await;
                assert_eq!(status, 200, "{body}");
                took.push(began.elapsed());
                count.fetch_add(1, Ordering::Relaxed);
            }
            took
        });
        Self { stop, tasks: vec![over_grpc, over_http], answered }
    }

    /// Ends the calls. All have succeeded, and none took long.
    pub(crate) async fn end(self) {
        self.answered(20).await;
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            let took = task.await.unwrap();
            let slowest = took.iter().max().unwrap();
            assert!(*slowest < SOON, "a call took {slowest:?}");
        }
    }
}

pub(crate) fn request(object: &str, payload: impl Into<Bytes>) -> tonic::Request<CallRequest> {
    let mut request = tonic::Request::new(CallRequest {
        object_type: "Counter".to_owned(),
        object: object.to_owned(),
        method: "add".to_owned(),
        payload: payload.into(),
        ..CallRequest::default()
    });
    request.set_timeout(Duration::from_secs(20));
    request
}

/// An unfinished gRPC message: all but the last byte. Returns when the call has ended.
pub(crate) async fn unfinished_message(from: &str, to: SocketAddr, service: &str) -> Option<u32> {
    let (mut client, connection) =
        h2::client::handshake(connect(from, to).await.ok()?).await.ok()?;
    let running = tokio::spawn(connection);
    let request = tonic::codegen::http::Request::post(format!("http://{to}/{service}/Call"));
    let request = request.header("content-type", "application/grpc").header("te", "trailers");
    let (response, mut body) = client.send_request(request.body(()).unwrap(), false).ok()?;
    let mut message = vec![0; LARGE];
    message[1..5].copy_from_slice(&(LARGE as u32).to_be_bytes());
    let sent = body.send_data(message.into(), false);
    let response = response.await.ok()?;
    drop((sent, body, client, running));
    response.headers().get("grpc-status")?.to_str().ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_client_succeeds_while_others_attack() {
    let world = World::start(&["--body-timeout-ms", "6000"]);
    let good = GoodClient::start(&world).await;
    let before = memory(&world.gate.child, "VmRSS");
    let (grpc, web) = (world.grpc(), world.http());
    let mut idle = open_many(1_000, "127.0.0.4", web, b"").await;
    only_256_stay_open(&mut idle).await;

    let body = format!("{}\r\ncontent-length: {LARGE}\r\n\r\n", add_head(web));
    let body = Arc::new([body.as_bytes(), &vec![b'1'; LARGE - 1]].concat());
    let mut attackers = Vec::new();
    for _ in 0..150 {
        let body = Arc::clone(&body);
        attackers.push(tokio::spawn(async move { open_many(1, "127.0.0.3", web, &body).await }));
    }
    let messages = UnfinishedMessages::send("127.0.0.5", grpc, GATE);
    let half_headers = add_head(web);
    let mut waiting = open_many(200, "127.0.0.2", web, half_headers.as_bytes()).await;
    waiting.extend(open_many(200, "127.0.0.6", grpc, b"PRI * HTTP/2.0\r\n").await);
    let mut bodies = Vec::new();
    for attacker in attackers {
        bodies.push(attacker.await.unwrap());
    }
    good.answered(20).await;
    // The share of each of the two senders, and what the allocator and the connections need.
    let grown = (memory(&world.gate.child, "VmHWM") - before) / MIB;
    assert!(grown < 2 * 64 + 64, "the gate has grown by {grown} MiB");
    // The share of an address is 64 MiB. With their heads, 15 messages fit.
    assert_eq!(messages.refused().await, UnfinishedMessages::COUNT - 15);
    drop((waiting, idle, bodies));
    good.end().await;
    until(|| memory(&world.gate.child, "VmRSS") < before + 48 * MIB).await;
}

/// Waits until the limit of connections of one address is in effect.
pub(crate) async fn only_256_stay_open(streams: &mut [TcpStream]) {
    let began = Instant::now();
    while count_open(streams).await > 256 {
        assert!(began.elapsed() < SOON, "{} are open", count_open(streams).await);
    }
    assert_eq!(count_open(streams).await, 256);
}

pub(crate) const GATE: &str = "shardwright.gate.v1.Gate";

/// Many calls whose last byte is missing.
pub(crate) struct UnfinishedMessages(Vec<JoinHandle<Option<u32>>>);

impl UnfinishedMessages {
    pub(crate) const COUNT: usize = 60;

    pub(crate) fn send(from: &'static str, to: SocketAddr, service: &'static str) -> Self {
        let send = |_| tokio::spawn(unfinished_message(from, to, service));
        Self((0..Self::COUNT).map(send).collect())
    }

    /// Waits for all answers, and returns the number of those that found no room. The others are
    /// late.
    pub(crate) async fn refused(self) -> usize {
        let mut refused = 0;
        for message in self.0 {
            let status = timeout(PATIENCE, message).await.unwrap().unwrap().unwrap();
            let is_overloaded = status == tonic::Code::ResourceExhausted as u32;
            assert!(is_overloaded || status == tonic::Code::DeadlineExceeded as u32, "{status}");
            refused += usize::from(is_overloaded);
        }
        refused
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_and_idle_connections_are_closed() {
    let world = World::start(&[
        "--header-timeout-ms",
        SHORT,
        "--body-timeout-ms",
        SHORT,
        "--handshake-timeout-ms",
        SHORT,
        "--idle-timeout-ms",
        SHORT,
    ]);
    let (grpc, web) = (world.grpc(), world.http());
    let mut streams = open_many(1, "127.0.0.2", web, b"").await;
    streams.extend(open_many(1, "127.0.0.2", web, b"POST /call/Counter/a/add HTTP/1.1\r\n").await);
    streams.extend(open_many(1, "127.0.0.2", grpc, b"").await);
    streams.extend(open_many(1, "127.0.0.2", grpc, b"PRI * HTTP/2").await);
    // A complete connection without a call, which answers pings.
    let stream = connect("127.0.0.2", grpc).await.unwrap();
    let (_client, idle) = h2::client::handshake(stream).await.unwrap();
    let idle = tokio::spawn(idle);

    // A slow body gets an answer.
    let mut slow = connect("127.0.0.2", web).await.unwrap();
    let head = format!("{}\r\ncontent-length: 9\r\n\r\n1", add_head(web));
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(SOON, slow.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 504") && answer.contains(r#""code":"LATE""#), "{answer}");
    let status = timeout(SOON, unfinished_message("127.0.0.2", grpc, GATE)).await.unwrap();
    assert_eq!(status, Some(tonic::Code::DeadlineExceeded as u32));

    all_closed(&mut streams).await;
    timeout(SOON, idle).await.unwrap().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_requests_do_not_delay_the_exit() {
    let world = World::start(&["--half-open-timeout-ms", "500"]);
    let (grpc, web) = (world.grpc(), world.http());
    let before = files(&world.gate.child);
    let head = format!("{}\r\ncontent-length: 9\r\n\r\n1", add_head(web));
    let mut streams = open_many(3, "127.0.0.2", web, head.as_bytes()).await;
    streams.extend(open_many(3, "127.0.0.2", web, b"POST /call/Counter/a/add").await);
    streams.extend(open_many(3, "127.0.0.2", grpc, b"PRI * HTTP").await);
    let message = tokio::spawn(unfinished_message("127.0.0.2", grpc, GATE));
    until(|| files(&world.gate.child) >= before + 10).await;
    world.gate.signal(Signal::TERM);
    let began = Instant::now();
    let World { gate, .. } = world;
    let (code, _) = tokio::task::spawn_blocking(|| gate.wait_for_events()).await.unwrap();
    assert_eq!(code, Some(0));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop((streams, message));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_free_descriptors_a_gate_waits_and_recovers() {
    let world = World::start(&[]);
    let (grpc, web) = (world.grpc(), world.http());
    let endpoint = Endpoint::from_shared(format!("http://{grpc}")).unwrap();
    let mut client = GateClient::new(endpoint.connect().await.unwrap());
    client.call(request("a", "1")).await.unwrap();

    let before = files(&world.gate.child);
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: Some(before as u64 + 4), maximum };
    prlimit(Some(Pid::from_child(&world.gate.child)), Resource::Nofile, limit).unwrap();
    let streams = open_many(40, "127.0.0.2", web, b"").await;
    until(|| files(&world.gate.child) > before).await;
    let before = cpu_time(&world.gate.child);
    sleep(Duration::from_secs(2)).await;
    let used = cpu_time(&world.gate.child) - before;
    assert!(used < Duration::from_millis(500), "{used:?} of two seconds");
    client.call(request("a", "1")).await.unwrap();
    drop(streams);
    let recovered = timeout(SOON, http(GOOD, web, &add_head(web), b"1")).await.unwrap();
    assert_eq!(recovered.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_requests_of_other_sites_are_refused() {
    let world = World::start(&["--host", "gate.example"]);
    let web = world.http();
    let port = web.port();
    let call = "POST /call/Counter/web/add HTTP/1.1\r\nhost: ";
    for (head, status, code) in [
        (format!("{call}{web}"), 200, ""),
        (format!("{call}localhost:{port}"), 200, ""),
        (format!("{call}gate.example"), 200, ""),
        (format!("{call}{web}\r\norigin: http://{web}"), 200, ""),
        (format!("{call}evil.example:{port}"), 421, "WRONG_HOST"),
        (format!("{call}{web}\r\norigin: http://evil.example"), 403, "CROSS_ORIGIN"),
        (format!("{call}{web}\r\nsec-fetch-site: cross-site"), 403, "CROSS_ORIGIN"),
        (format!("{call}{web}\r\ncontent-type: text/plain"), 415, "CONTENT_TYPE"),
        (
            format!("DELETE /call/Counter/web/add HTTP/1.1\r\nhost: {web}"),
            405,
            "METHOD_NOT_ALLOWED",
        ),
        (format!("GET /nothing HTTP/1.1\r\nhost: {web}"), 404, "NOT_FOUND"),
        ("GET /healthz HTTP/1.1\r\nhost: evil.example".to_owned(), 421, "WRONG_HOST"),
        (format!("GET /healthz HTTP/1.1\r\nhost: {web}"), 200, ""),
        (format!("GET /readyz HTTP/1.1\r\nhost: {web}"), 200, ""),
    ] {
        let (answered, body) = http(GOOD, web, &head, b"1").await;
        assert_eq!(answered, status, "{head}: {body}");
        if status != 200 {
            let problem: Value = serde_json::from_str(&body).unwrap();
            assert_eq!((&problem["code"], &problem["executed"]), (&code.into(), &"no".into()));
            assert!(problem["message"].is_string(), "{problem}");
        }
    }
    // Only the four accepted calls were executed, and this one.
    let (_, count) = http(GOOD, web, &format!("{call}{web}"), b"1").await;
    assert_eq!(count, "5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_client_cannot_fill_the_queue_of_held_calls() {
    let site = Site::new();
    site.expect(0, &["cluster", "create", "--shards", "16"]);
    let limits = ["--held-calls", "100", "--held-calls-per-address", "25"];
    let gate = Server::start(&site, &[&["gate"], &limits[..]].concat());
    let web: SocketAddr = gate.http.as_ref().unwrap().parse().unwrap();
    // No node serves, so all calls are held.
    let held: Vec<_> = (0..60)
        .map(|_| tokio::spawn(async move { http("127.0.0.2", web, &add_head(web), b"1").await }))
        .collect();
    let endpoint = Endpoint::from_shared(format!("http://{}", gate.address)).unwrap();
    let client = GateClient::new(endpoint.connect().await.unwrap());
    // The share of the address is held, and the rest refused.
    until(|| held.iter().filter(|call| call.is_finished()).count() == 60 - 25).await;
    let good: Vec<_> = (0..10)
        .map(|number| {
            let mut client = client.clone();
            let call = request(&format!("good-{number}"), "1");
            tokio::spawn(async move { client.call(call).await })
        })
        .collect();
    let _node = Server::start(&site, &["node"]);
    for call in good {
        assert_eq!(call.await.unwrap().unwrap().into_inner().payload, "1");
    }
    let mut full = 0;
    for call in held {
        let (status, body) = call.await.unwrap();
        let limit = "limit: --held-calls-per-address 25";
        assert!(status == 200 || body.contains(limit), "{status}: {body}");
        full += u32::from(status == 429);
    }
    assert_eq!(full, 60 - 25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_refuses_fences_and_chains() {
    let world = World::start(&[]);
    let endpoint = Endpoint::from_shared(format!("http://{}", world.grpc())).unwrap();
    let mut client = GateClient::new(endpoint.connect().await.unwrap());
    for (fence, chain) in [(Some(1), vec![]), (None, vec![Bytes::from_static(&[10, 1, 65])])] {
        let mut call = request("a", "1");
        (call.get_mut().fence, call.get_mut().chain) = (fence, chain);
        let status = client.call(call).await.unwrap_err();
        assert_eq!(error_of_status(&status), Some(CallError::MembersOnly), "{status}");
    }
}

#[test]
fn a_host_is_a_name_without_a_port() {
    let site = Site::new();
    for host in ["gate.example:8080", "http://gate.example", "gate.example/", ""] {
        let printed = site.expect(2, &["gate", "--host", host]);
        assert!(printed.contains("is not a host; give its name alone"), "{printed}");
    }
}

#[test]
fn a_wide_address_needs_allow_insecure() {
    let site = Site::new();
    let wide = [
        &["node", "--listen", "0.0.0.0:0", "--address", "10.0.0.1:7000"][..],
        &["gate", "--listen", "0.0.0.0:0", "--address", "10.0.0.1:7000"],
        &["gate", "--http", "0.0.0.0:0"],
    ];
    for arguments in wide {
        let printed = site.expect(2, arguments);
        assert!(printed.contains("--allow-insecure") && printed.contains("TLS"), "{printed}");
    }
    let arguments = ["--json", "gate", "--http", "0.0.0.0:0", "--allow-insecure"];
    let mut gate = site.start_piped(&arguments);
    let mut warning = String::new();
    let stderr = gate.stderr.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut warning).unwrap();
    gate.kill().unwrap();
    gate.wait().unwrap();
    assert!(warning.starts_with("warning: ") && warning.contains("without TLS"), "{warning}");
}
