//! Shares and timeouts of peers.

use std::net::{IpAddr, SocketAddr};

use shardwright_api::limits::{ANSWER_PART_SIZE, ListenLimits, REQUEST_OVERHEAD, Share};
use shardwright_node::CallService;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Endpoint;

use super::*;

/// Longer than any wait of these tests.
const PATIENCE: Duration = Duration::from_secs(20);

const SECOND: Duration = Duration::from_secs(1);

/// Waits for a condition.
async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap();
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Serves clients over gRPC.
async fn grpc_at(service: Arc<dyn CallService>, ingress: Arc<Ingress>) -> SocketAddr {
    let (listener, address) = listen().await;
    drop(tokio::spawn(serve_gate(listener, service, ingress, std::future::pending())));
    address
}

/// Serves clients over HTTP.
async fn http_at(service: Arc<dyn CallService>, limits: ListenLimits) -> SocketAddr {
    let (listener, address) = listen().await;
    let (ingress, stop) = (Ingress::new(limits), std::future::pending());
    drop(tokio::spawn(serve_http(listener, service, Vec::new(), ingress, stop)));
    address
}

async fn client_from(from: u8, to: SocketAddr) -> GateClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{to}")).unwrap();
    let endpoint = endpoint.local_address(Some(IpAddr::from([127, 0, 0, from])));
    GateClient::new(endpoint.connect().await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_calls_leave_room_for_other_clients_of_their_gate() {
    // More than the bytes of one call.
    let unit = REQUEST_OVERHEAD + 300;
    let world = World::new();
    let share = |all: u64, peer: u64| Share { all: all * unit, peer: peer * unit };
    let limits = ListenLimits { bytes: share(180, 180), ..ListenLimits::NODE };
    let _node = world.node_on(Ingress::new(limits)).await;
    world.ready(1).await;
    let gate = world.gate().await;
    let limits = ListenLimits { bytes: share(80, 40), ..ListenLimits::GATE };
    let ingress = Ingress::new(limits);
    let address = grpc_at(gate.service(), Arc::clone(&ingress)).await;

    let mut slow = Vec::new();
    for from in [2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4] {
        let client = client_from(from, address).await;
        loop {
            let (mut client, before) = (client.clone(), ingress.bytes());
            let call = tokio::spawn(async move { client.call(request("slow", "sleep", "")).await });
            until(|| call.is_finished() || ingress.bytes() >= before + REQUEST_OVERHEAD).await;
            if call.is_finished() {
                let refused = call.await.unwrap().unwrap_err();
                let error = error_of_status(&refused);
                assert!(matches!(error, Some(CallError::Overloaded(_))), "{refused}");
                break;
            }
            slow.push(call);
        }
    }
    assert!(ingress.bytes() > 60 * REQUEST_OVERHEAD, "{} slow calls", slow.len());
    let mut good = client_from(1, address).await;
    for number in 0..10 {
        let mut call = request(&format!("good-{number}"), "echo", "here");
        call.set_timeout(3 * SECOND);
        assert_eq!(good.call(call).await.unwrap().into_inner().payload, "here");
    }
    assert!(slow.iter().all(|call| !call.is_finished()), "the slow calls still run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_call_counts_at_its_gate_until_its_deadline() {
    let size = 1 << 20;
    let world = World::new();
    let at_node = Ingress::new(ListenLimits::NODE);
    let _node = world.node_on(Arc::clone(&at_node)).await;
    world.ready(1).await;
    let gate = world.gate().await;
    let at_gate = Ingress::new(ListenLimits::GATE);
    let address = grpc_at(gate.service(), Arc::clone(&at_gate)).await;
    let mut client = client_from(1, address).await;
    let mut call = request("slow", "sleep", vec![0; size]);
    call.set_timeout(5 * SECOND);
    let began = Instant::now();
    let call = tokio::spawn(async move { client.call(call).await });
    until(|| at_node.bytes() > size as u64).await;
    call.abort();
    until(|| at_gate.connections() == 0).await;
    assert!(at_gate.bytes() > size as u64, "the node still runs the call");
    until(|| at_gate.bytes() == 0).await;
    assert!(began.elapsed() > 4 * SECOND, "{:?}", began.elapsed());
}

/// Sends a request as one gRPC message, and returns its answer and the running connection.
async fn send_message(
    to: SocketAddr,
    path: &str,
    message: &[u8],
) -> (hyper::Response<h2::RecvStream>, JoinHandle<Result<(), h2::Error>>) {
    let stream = TcpStream::connect(to).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    let running = tokio::spawn(connection);
    let head = hyper::Request::post(format!("http://{to}{path}"));
    let head = head.header("content-type", "application/grpc").header("te", "trailers");
    let (answer, mut body) = client.send_request(head.body(()).unwrap(), false).unwrap();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    body.send_data([&[0], &length[..], message].concat().into(), true).unwrap();
    (answer.await.unwrap(), running)
}

const CALL: &str = "/shardwright.gate.v1.Gate/Call";
const LOADS: &str = "/shardwright.node.v1.Node/Loads";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_about_loads_counts_until_it_is_sent() {
    let world = World::new();
    let head = "content-typeapplication/grpctetrailers".len() + LOADS.len();
    let head = REQUEST_OVERHEAD + head as u64;
    // Room for the head, and for a part of the answer: two bytes for each of the 64 shards.
    let limit = head + 100;
    let limits = ListenLimits { bytes: Share { all: limit, peer: limit }, ..ListenLimits::NODE };
    let ingress = Ingress::new(limits);
    let node = world.node_on(Arc::clone(&ingress)).await;
    world.ready(1).await;
    let address: SocketAddr = node.node.address().as_str().parse().unwrap();
    let (answer, _running) = send_message(address, LOADS, b"").await;
    let status = tonic::Status::from_header_map(answer.headers()).unwrap();
    let over = Limit { option: LimitOption::BytesInFlight, value: limit };
    assert_eq!(error_of_status(&status), Some(CallError::Overloaded(over)), "{status}");
    until(|| ingress.bytes() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_gets_its_answer() {
    let world = World::new();
    let _node = world.node().await;
    world.ready(1).await;
    let gate = world.gate().await;
    let answer_timeout = Duration::from_millis(500);
    let ingress = Ingress::new(ListenLimits { answer_timeout, ..ListenLimits::GATE });
    let address = grpc_at(gate.service(), ingress).await;
    let size = 4 << 20;
    let message = request("x", "echo", vec![7; size]).into_inner().encode_to_vec();
    let (answer, _running) = send_message(address, CALL, &message).await;
    let began = Instant::now();
    let (mut body, mut read, mut unreleased) = (answer.into_body(), 0, 0);
    while let Some(data) = body.data().await {
        let data = data
            .unwrap_or_else(|error| panic!("{error} after {read} bytes and {:?}", began.elapsed()));
        read += data.len();
        unreleased += data.len();
        if unreleased > 2 * ANSWER_PART_SIZE {
            // The peer accepts the next parts only after this.
            sleep(Duration::from_millis(20)).await;
            body.flow_control().release_capacity(std::mem::take(&mut unreleased)).unwrap();
        }
    }
    assert!(read > size, "{read} bytes");
    assert!(began.elapsed() > 3 * answer_timeout, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_reader_is_closed_over_http() {
    let world = World::new();
    let _node = world.node().await;
    world.ready(1).await;
    let gate = world.gate().await;
    let answer_timeout = Duration::from_millis(500);
    let limits = ListenLimits { answer_timeout, ..ListenLimits::GATE };
    let address = http_at(gate.service(), limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let payload = vec![b'7'; 4 << 20];
    let head = http_request(address, &format!("content-length: {}", payload.len()));
    // Far more answers than the buffers of both sockets hold.
    let stalled = async {
        loop {
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&payload).await?;
        }
    };
    let closed: Result<std::io::Result<()>, _> = timeout(PATIENCE, stalled).await;
    assert!(closed.expect("the connection is closed").is_err());
}

/// A call over HTTP whose connection stays open.
fn http_request(address: SocketAddr, header: &str) -> String {
    format!("POST /call/Echo/x/echo HTTP/1.1\r\nhost: {address}\r\n{header}\r\n\r\n")
}

/// Reads the answer to a call with the payload `x`.
async fn read_answer(stream: &mut TcpStream) {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nx") {
        let mut part = [0; 1_024];
        let read = timeout(PATIENCE, stream.read(&mut part)).await.unwrap().unwrap();
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend(part.iter().take(read));
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&answer));
}

/// Waits until the peer closes a connection.
async fn read_end(stream: &mut TcpStream) {
    let mut byte = [0];
    // Reset, or at its end.
    let end = timeout(PATIENCE, stream.read(&mut byte)).await.unwrap();
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_have_no_timeout_before_their_request_begins() {
    let world = World::new();
    let _node = world.node().await;
    world.ready(1).await;
    let gate = world.gate().await;
    let header_timeout = Duration::from_millis(300);
    let limits = ListenLimits { header_timeout, ..ListenLimits::GATE };
    let address = http_at(gate.service(), limits).await;
    let call = http_request(address, "content-length: 1") + "x";
    let mut stream = TcpStream::connect(address).await.unwrap();
    for _ in 0..2 {
        stream.write_all(call.as_bytes()).await.unwrap();
        read_answer(&mut stream).await;
        // Idle for longer than the timeout of headers.
        sleep(4 * header_timeout).await;
    }
    // A request that has begun must send its headers in time, however it divides them.
    let began = Instant::now();
    let (first, rest) = call.split_at(10);
    stream.write_all(first.as_bytes()).await.unwrap();
    for byte in rest.bytes() {
        sleep(header_timeout / 5).await;
        if stream.write_all(&[byte]).await.is_err() {
            break;
        }
    }
    read_end(&mut stream).await;
    assert!(began.elapsed() >= header_timeout, "{:?}", began.elapsed());
    // So must the first request of a connection.
    read_end(&mut TcpStream::connect(address).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_without_requests_has_the_idle_timeout() {
    let world = World::new();
    let _node = world.node().await;
    world.ready(1).await;
    let gate = world.gate().await;
    let idle_timeout = Duration::from_millis(300);
    let limits = ListenLimits { idle_timeout, ..ListenLimits::GATE };
    let address = http_at(gate.service(), limits).await;
    let call = http_request(address, "content-length: 1") + "x";
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(call.as_bytes()).await.unwrap();
    read_answer(&mut stream).await;
    let answered = Instant::now();
    read_end(&mut stream).await;
    // Far less than the timeout of headers.
    assert!(answered.elapsed() < 5 * SECOND, "{:?}", answered.elapsed());
}
