//! Nodes and a gate on real sockets of this machine.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may use the real world"
)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics is a test that fails")]

mod peers;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use shardwright_api::limits::{MAX_MESSAGE_SIZE, REQUEST_OVERHEAD, Share};
use shardwright_api::wire::gate::gate_client::GateClient;
use shardwright_api::wire::gate::{CallRequest, DeleteRequest};
use shardwright_api::{CallError, Limit, LimitOption, UnknownWhy, error_of_status};
use shardwright_cluster::{Cluster, ClusterName, ClusterOptions, Layout};
use shardwright_engine::TokioEnv;
use shardwright_node::limits::ListenLimits;
use shardwright_node::world::{GrpcTransport, Ingress, serve_gate, serve_http, serve_node};
use shardwright_node::{
    Activation, CallContext, Gate, GateOptions, Node, NodeOptions, ObjectError, ObjectType,
    ObjectTypes, Transport as _,
};
use shardwright_placement::{ClusterConfig, NodeAddress, ShardCount};
use shardwright_store::etcd::EtcdStore;
use shardwright_store::file::{FileOptions, FileStore};
use shardwright_store::memory::MemoryStore;
use shardwright_store::testing::EtcdCluster;
use shardwright_store::{MachineClock, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::Request;
use tonic::transport::Channel;

struct Echo;

impl ObjectType for Echo {
    /// The number of calls since the activation.
    type Object = u64;

    async fn activate(&self, activation: &Activation) -> Result<u64, ObjectError> {
        activation.fence.map(|_fence| 0).ok_or(ObjectError::Unknown)
    }

    async fn handle(
        &self,
        calls: &mut u64,
        context: &CallContext,
        method: &str,
        payload: Bytes,
    ) -> Result<Bytes, ObjectError> {
        *calls += 1;
        match method {
            "echo" => Ok(payload),
            "calls" => Ok(calls.to_string().into()),
            "forget" => {
                let id = String::from_utf8_lossy(&payload).into_owned();
                Ok(context.delete("Echo", &id).await.map(|()| Bytes::new())?)
            }
            "forward" => {
                let id = String::from_utf8_lossy(&payload).into_owned();
                Ok(context.call("Echo", &id, "echo", "there").await?)
            }
            "sleep" => {
                tokio::time::sleep(context.remaining() + Duration::from_secs(5)).await;
                Ok(payload)
            }
            "panic" => panic!("as requested"),
            "slowly" => {
                tokio::time::sleep(Duration::from_millis(500)).await;
                Ok(payload)
            }
            "refuse" => Err(ObjectError::refused("no ".repeat(payload.len() / 3))),
            other => Err(ObjectError::refused(format!("what is {other}?"))),
        }
    }
}

struct Server {
    node: Node,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

struct World<S> {
    store: S,
    layout: Layout,
    env: TokioEnv,
}

impl World<MemoryStore> {
    fn new() -> Self {
        World::on(MemoryStore::new(Arc::new(MachineClock)), Layout::Native)
    }
}

impl<S: Store + Clone> World<S> {
    fn on(store: S, layout: Layout) -> Self {
        Self { store, layout, env: TokioEnv::current().unwrap() }
    }

    async fn cluster(&self) -> Cluster {
        let mut config = ClusterConfig::with_num_shards(ShardCount::try_new(64).unwrap());
        config.cluster_state_stability_duration_ms = 50;
        config.move_cooldown_ms = 0;
        config.rebalance_shards_batch_size = Some(8);
        let options = ClusterOptions {
            layout: self.layout.clone(),
            ..ClusterOptions::new(ClusterName::parse("test").unwrap(), config)
        };
        Cluster::open(self.store.clone(), self.env.clone(), options).await.unwrap()
    }

    async fn node(&self) -> Server {
        self.node_on(Ingress::new(ListenLimits::NODE)).await
    }

    async fn node_on(&self, ingress: Arc<Ingress>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = NodeAddress::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        let types = ObjectTypes::new().with("Echo", Echo);
        let transport = Arc::new(GrpcTransport::default());
        let options = NodeOptions::default();
        let cluster = self.cluster().await;
        let node = Node::start(cluster, address, types, transport, options).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let service = node.service();
        let task = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            serve_node(listener, service, ingress, stopped).await;
        });
        Server { node, stop, task }
    }

    async fn ready(&self, nodes: usize) {
        let cluster = self.cluster().await;
        let mut changes = cluster.changes();
        let ready = changes.wait_for(|view| {
            let even = view
                .members
                .iter()
                .all(|member| view.held_by(&member.holder).count() >= 64 / nodes);
            view.members.len() == nodes && view.readiness().is_ready() && even
        });
        tokio::time::timeout(Duration::from_secs(60), ready).await.unwrap().unwrap();
    }

    async fn gate(&self) -> Gate {
        let address = NodeAddress::parse("gate").unwrap();
        let transport = Arc::new(GrpcTransport::default());
        let cluster = self.cluster().await;
        Gate::open(cluster, address, transport, GateOptions::default()).await.unwrap()
    }
}

async fn client(gate: &Gate) -> GateClient<Channel> {
    client_of(gate, Ingress::new(ListenLimits::GATE)).await
}

async fn client_of(gate: &Gate, ingress: Arc<Ingress>) -> GateClient<Channel> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = gate.service();
    drop(tokio::spawn(serve_gate(listener, service, ingress, std::future::pending())));
    let client = GateClient::connect(format!("http://{address}")).await.unwrap();
    client.max_decoding_message_size(MAX_MESSAGE_SIZE)
}

fn request(object: &str, method: &str, payload: impl Into<Bytes>) -> Request<CallRequest> {
    let mut request = Request::new(CallRequest {
        object_type: "Echo".to_owned(),
        object: object.to_owned(),
        method: method.to_owned(),
        payload: payload.into(),
        ..CallRequest::default()
    });
    request.set_timeout(Duration::from_secs(10));
    request
}

async fn error(client: &mut GateClient<Channel>, request: Request<CallRequest>) -> CallError {
    let status = client.call(request).await.unwrap_err();
    error_of_status(&status).unwrap_or_else(|| panic!("{status}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_over_sockets() {
    let world = World::new();
    let nodes = [world.node().await, world.node().await];
    world.ready(2).await;
    let gate = world.gate().await;
    let mut client = client(&gate).await;
    for n in 0..100 {
        let answer = client.call(request(&format!("id-{n}"), "echo", "here")).await.unwrap();
        assert_eq!(answer.into_inner().payload, "here");
        let other = format!("id-{}", n + 1);
        let answer = client.call(request(&format!("id-{n}"), "forward", other)).await.unwrap();
        assert_eq!(answer.into_inner().payload, "there");
    }
    let large = Bytes::from(vec![7; 4 << 20]);
    let answer = client.call(request("large", "echo", large.clone())).await.unwrap();
    assert_eq!(answer.into_inner().payload, large);
    assert!(nodes.iter().all(|one| one.node.shards().len() == 32));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_go_over_sockets() {
    let world = World::new();
    let _nodes = [world.node().await, world.node().await];
    world.ready(2).await;
    let gate = world.gate().await;
    let mut client = client(&gate).await;
    for id in ["a", "b", "c", "d"] {
        let mut calls = async || {
            let answer = client.call(request(id, "calls", "")).await.unwrap();
            answer.into_inner().payload
        };
        assert_eq!((calls().await, calls().await), ("1".into(), "2".into()));
        let object = DeleteRequest { object_type: "Echo".to_owned(), object: id.to_owned() };
        client.delete(object).await.unwrap();
        let answer = client.call(request(id, "calls", "")).await.unwrap();
        assert_eq!(answer.into_inner().payload, "1");
        // An object may delete another one, but not itself.
        client.call(request("e", "forget", id)).await.unwrap();
        let answer = client.call(request(id, "calls", "")).await.unwrap();
        assert_eq!(answer.into_inner().payload, "1");
    }
    let refused = error(&mut client, request("e", "forget", "e")).await;
    assert!(matches!(refused, CallError::Refused(_)), "{refused:?}");
    let status = client.delete(DeleteRequest::default()).await.unwrap_err();
    assert!(matches!(error_of_status(&status), Some(CallError::InvalidId(_))), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_go_over_sockets() {
    let world = World::new();
    let _node = world.node().await;
    world.ready(1).await;
    let gate = world.gate().await;
    let mut client = client(&gate).await;
    let refused = CallError::Refused("what is nonsense?".to_owned());
    assert_eq!(error(&mut client, request("x", "nonsense", "")).await, refused);
    assert_eq!(error(&mut client, request("x", "panic", "")).await, CallError::Panicked);
    let empty = CallError::InvalidId("an object id is empty".to_owned());
    assert_eq!(error(&mut client, request("", "echo", "")).await, empty);
    let Err(status) = client
        .call({
            let mut late = request("x", "sleep", "");
            late.set_timeout(Duration::from_millis(300));
            late
        })
        .await
    else {
        panic!("the call ended in time")
    };
    // Either the client's own timer or the gate reports it first.
    let late = error_of_status(&status);
    assert!(matches!(late, None | Some(CallError::Unknown(UnknownWhy::Late))), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_refusal_does_not_affect_other_calls() {
    let world = World::new();
    let _node = world.node().await;
    world.ready(1).await;
    let gate = world.gate().await;
    let client = client(&gate).await;
    let calls: Vec<_> = (0..50)
        .map(|number| {
            let mut client = client.clone();
            let request = request(&format!("id-{number}"), "slowly", "x");
            tokio::spawn(async move { client.call(request).await })
        })
        .collect();
    let long = request("grumpy", "refuse", vec![0; 100_000]);
    let refused = error(&mut client.clone(), long).await;
    let CallError::Refused(why) = refused else { panic!("{refused:?}") };
    assert!(why.starts_with("no no no") && why.len() < 2_000, "{} bytes", why.len());
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().into_inner().payload, "x");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_go_over_sockets() {
    let world = World::new();
    let node = world.node().await;
    world.ready(1).await;
    let gate = world.gate().await;
    let mut client = client(&gate).await;
    let transport = GrpcTransport::default();
    let loads = async || {
        let timeout = Duration::from_secs(5);
        transport.loads(node.node.address(), timeout).await.unwrap()
    };
    // Loads are measured once a second, starting with the first request.
    assert_eq!(loads().await.len(), 64);
    client.call(request("shard#5/x", "slowly", "x")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let busy: Vec<_> = loads().await.into_iter().filter(|one| one.load > 100_000).collect();
    let shards: Vec<_> = busy.iter().map(|one| one.shard.as_raw()).collect();
    assert_eq!(shards, [5], "{busy:?}");
}

/// One node serves, another joins and gets its share, and the first leaves, while clients call all
/// the time. No call fails.
async fn join_and_leave<S: Store + Clone>(world: World<S>) {
    let first = world.node().await;
    world.ready(1).await;
    let gate = world.gate().await;
    let client = client(&gate).await;
    let (stop, stopped) = watch::channel(false);
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let (mut client, stopped) = (client.clone(), stopped.clone());
            tokio::spawn(async move {
                let mut calls = 0_u64;
                while !*stopped.borrow() {
                    let id = format!("id-{number}-{}", calls % 50);
                    let answer = client.call(request(&id, "echo", "x")).await;
                    answer.unwrap_or_else(|status| panic!("{:?}", error_of_status(&status)));
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let _second = world.node().await;
    world.ready(2).await;
    first.node.drain().await;
    world.ready(1).await;
    // A server runs until its callers know that its node has left.
    let mut changes = gate.cluster().changes();
    drop(changes.wait_for(|view| view.members.len() == 1).await.unwrap());
    first.stop.send(()).unwrap();
    first.task.await.unwrap();
    stop.send(true).unwrap();
    for client in clients {
        assert!(client.await.unwrap() > 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_join_and_leave_and_no_call_fails() {
    join_and_leave(World::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_on_a_file_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    join_and_leave(World::on(store, Layout::Native)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_on_etcd() {
    let etcd = EtcdCluster::single().await.unwrap();
    let store = EtcdStore::connect(etcd.options()).await.unwrap();
    join_and_leave(World::on(store, Layout::Native)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_on_etcd_in_the_text_format() {
    let etcd = EtcdCluster::single().await.unwrap();
    let store = EtcdStore::connect(etcd.options().namespace("/")).await.unwrap();
    join_and_leave(World::on(store, Layout::Seed { prefix: "goverse".to_owned() })).await;
}

/// The response to a plain HTTP request.
async fn post(address: &str, path: &str, body: &str) -> (String, String) {
    post_with(address, path, "timeout-ms: 5000", body).await
}

/// The same with an additional header.
async fn post_with(address: &str, path: &str, header: &str, body: &str) -> (String, String) {
    send("POST", address, path, header, body).await
}

async fn send(verb: &str, address: &str, path: &str, header: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{verb} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\
         {header}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_may_use_plain_http() {
    let world = World::new();
    let _node = world.node().await;
    world.ready(1).await;
    let gate = world.gate().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { drop(stopped.await) };
    let ingress = Ingress::new(ListenLimits::GATE);
    let server = tokio::spawn(serve_http(listener, gate.service(), Vec::new(), ingress, stopped));
    let ok = "HTTP/1.1 200 OK".to_owned();
    let answer = post(&address, "/call/Echo/x/echo", "hello").await;
    assert_eq!(answer, (ok.clone(), "hello".to_owned()));
    let answer = post(&address, "/call/Echo/shard%235%2Fx/echo", "five").await;
    assert_eq!(answer, (ok.clone(), "five".to_owned()));
    assert_eq!(post(&address, "/call/Echo/x/calls", "").await.1, "2");
    let no_header = "accept: */*";
    let answer = send("DELETE", &address, "/call/Echo/x", no_header, "").await;
    assert_eq!(answer, (ok, String::new()));
    assert_eq!(post(&address, "/call/Echo/x/calls", "").await.1, "1");
    let (status, body) = send("DELETE", &address, "/call/Nothing/x", no_header, "").await;
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert!(body.contains(r#""code":"UNKNOWN_TYPE""#), "{body}");
    let (status, body) = post(&address, "/call/Echo/x/nonsense", "").await;
    assert_eq!(status, "HTTP/1.1 422 Unprocessable Entity");
    let expected = r#"{"code":"REFUSED","message":"what is nonsense?","executed":"yes"}"#;
    assert_eq!(body, expected);
    let (status, body) = post(&address, "/call/Echo/shard%2399%2Fx/echo", "").await;
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    assert!(body.contains(r#""code":"INVALID_ID""#) && body.contains(r#""executed":"no""#));
    // A malformed call is reported in the same way.
    let no_number = "timeout-ms: soon";
    let (status, body) = post_with(&address, "/call/Echo/x/echo", no_number, "").await;
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    let expected = concat!(
        r#"{"code":"INVALID_REQUEST","message":"timeout-ms is not a number of milliseconds","#,
        r#""executed":"no"}"#
    );
    assert_eq!(body, expected);
    let (status, body) = post(&address, "/call/Echo/%FF/echo", "").await;
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    assert!(body.contains(r#""code":"INVALID_REQUEST""#), "{body}");
    let large = "x".repeat((4 << 20) + 1);
    let (status, body) = post(&address, "/call/Echo/x/echo", &large).await;
    assert_eq!(status, "HTTP/1.1 413 Payload Too Large");
    let expected = concat!(
        r#"{"code":"TOO_LARGE","message":"4194305 bytes were sent, at most 4194304 are allowed","#,
        r#""executed":"no"}"#
    );
    assert_eq!(body, expected);
    // A refused or an incomplete request to delete an object is not executed.
    let calls = post(&address, "/call/Echo/y/calls", "").await.1;
    let (status, body) = send("DELETE", &address, "/call/Echo/y", no_header, &large).await;
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 413 Payload Too Large", expected));
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let head = format!("DELETE /call/Echo/y HTTP/1.1\r\nhost: {address}");
    let half = format!("{head}\r\ncontent-length: 9\r\n\r\n1");
    stream.write_all(half.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    let more_calls = post(&address, "/call/Echo/y/calls", "").await.1;
    assert_eq!((calls.as_str(), more_calls.as_str()), ("1", "2"));
    stop.send(()).unwrap();
    server.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_answers_count_until_their_connection_is_closed() {
    let world = World::new();
    let _node = world.node().await;
    world.ready(1).await;
    let gate = world.gate().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer_timeout = Duration::from_millis(500);
    let ingress = Ingress::new(ListenLimits { answer_timeout, ..ListenLimits::GATE });
    let (service, shared) = (gate.service(), Arc::clone(&ingress));
    drop(tokio::spawn(serve_gate(listener, service, shared, std::future::pending())));

    let stream = TcpStream::connect(address).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    let closed = tokio::spawn(connection);
    let uri = format!("http://{address}/shardwright.gate.v1.Gate/Call");
    let head = tonic::codegen::http::Request::post(uri);
    let head = head.header("content-type", "application/grpc").header("te", "trailers");
    let (answer, mut body) = client.send_request(head.body(()).unwrap(), false).unwrap();
    let size = 4_u32 << 20;
    let message = request("x", "echo", vec![7; size as usize]).into_inner().encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    body.send_data([&[0], &length[..], &message].concat().into(), true).unwrap();
    // The headers of the answer arrive, and its body is not read.
    let unread = answer.await.unwrap();
    let head = ingress.bytes() - u64::from(size);
    assert!((REQUEST_OVERHEAD + 1..REQUEST_OVERHEAD + 1_000).contains(&head), "{head}");
    let ended = tokio::time::timeout(Duration::from_secs(10), closed).await;
    ended.expect("the connection is closed").unwrap().ok();
    drop(unread);
    let free = async {
        while ingress.bytes() > 0 || ingress.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), free).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_head_of_a_request_counts() {
    let gate = World::new().gate().await;
    let limit = REQUEST_OVERHEAD;
    let bytes = Share { all: limit, peer: limit };
    let ingress = Ingress::new(ListenLimits { bytes, ..ListenLimits::GATE });
    let mut client = client_of(&gate, Arc::clone(&ingress)).await;
    let refused = error(&mut client, request("x", "echo", "")).await;
    let over = Limit { option: LimitOption::BytesInFlight, value: limit };
    assert_eq!(refused, CallError::Overloaded(over));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (service, shared, stop) = (gate.service(), Arc::clone(&ingress), std::future::pending());
    drop(tokio::spawn(serve_http(listener, service, Vec::new(), shared, stop)));
    for (verb, path) in [("POST", "/call/Echo/x/echo"), ("DELETE", "/call/Echo/x")] {
        let (_, body) = send(verb, &address, path, "accept: */*", "").await;
        assert!(body.contains(r#""code":"OVERLOADED""#), "{body}");
    }
    assert_eq!(ingress.bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chunked_request_counts_its_length_once_that_is_known() {
    let gate = World::new().gate().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ingress = Ingress::new(ListenLimits::GATE);
    let (service, shared, stop) = (gate.service(), Arc::clone(&ingress), std::future::pending());
    drop(tokio::spawn(serve_http(listener, service, Vec::new(), shared, stop)));
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let head = format!("POST /call/Echo/x/echo HTTP/1.1\r\nhost: {address}");
    let begun = format!("{head}\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
    stream.write_all(begun.as_bytes()).await.unwrap();
    let until = async |is_so: fn(u64) -> bool| {
        let waiting = async {
            while !is_so(ingress.bytes()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap();
    };
    until(|bytes| bytes > 4 << 20).await;
    // No node serves, so the call is held.
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    until(|bytes| (REQUEST_OVERHEAD..2 * REQUEST_OVERHEAD).contains(&bytes)).await;
}
