//! A call through a gate to a node, beside the same bytes through a proxy that does nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use shardwright_api::wire::gate::gate_client::GateClient;
use shardwright_api::wire::gate::gate_server::{Gate, GateServer};
use shardwright_api::wire::node::node_client::NodeClient;
use shardwright_api::wire::node::node_server::{Node, NodeServer};
use shardwright_api::wire::{gate, node};
use shardwright_store::MachineClock;
use shardwright_store::memory::{MemoryStore, NoHooks};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use crate::echo::TYPE;
use crate::{percentile, site};

const SHARDS: u32 = 64;
const PAYLOAD: usize = 128;
/// Calls one after the other, per round.
const CALLS: usize = 2_000;
/// Callers at the same time, and how long they call, per round.
const CALLERS: usize = 64;
const SPAN: Duration = Duration::from_secs(2);
/// Both are measured by turns, so that what else the machine does hits both.
const ROUNDS: usize = 5;

/// The node that does nothing.
struct BareNode;

#[tonic::async_trait]
impl Node for BareNode {
    async fn call(
        &self,
        request: Request<node::CallRequest>,
    ) -> Result<Response<node::CallResponse>, Status> {
        Ok(Response::new(node::CallResponse { payload: request.into_inner().payload }))
    }
}

/// The gate that does nothing but to pass on.
struct BareGate(NodeClient<Channel>);

#[tonic::async_trait]
impl Gate for BareGate {
    async fn call(
        &self,
        request: Request<gate::CallRequest>,
    ) -> Result<Response<gate::CallResponse>, Status> {
        let gate::CallRequest { object_type, object, method, payload } = request.into_inner();
        let (chain, fence) = (Vec::new(), Some(1));
        let passed = node::CallRequest { object_type, object, method, payload, chain, fence };
        let mut request = Request::new(passed);
        request.set_timeout(Duration::from_secs(10));
        let answer = self.0.clone().call(request).await?;
        Ok(Response::new(gate::CallResponse { payload: answer.into_inner().payload }))
    }
}

async fn listen() -> (TcpIncoming, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (TcpIncoming::from(listener).with_nodelay(Some(true)), address)
}

fn channel(address: &str) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.tcp_nodelay(true).connect_lazy()
}

/// Two bare hops, and where they begin.
async fn bare() -> String {
    let (incoming, address) = listen().await;
    let server = Server::builder().add_service(NodeServer::new(BareNode));
    drop(tokio::spawn(server.serve_with_incoming(incoming)));
    let bare = BareGate(NodeClient::new(channel(&address)));
    let (incoming, address) = listen().await;
    let server = Server::builder().add_service(GateServer::new(bare));
    drop(tokio::spawn(server.serve_with_incoming(incoming)));
    address
}

pub(crate) async fn report() {
    let store = MemoryStore::new(Arc::new(MachineClock));
    let open = async || site::cluster(store.client(Arc::new(NoHooks)), SHARDS).await;
    let _node = site::node(open().await).await;
    let (gate, ours) = site::gate(open().await).await;
    site::ready(gate.cluster(), 1, SHARDS as usize).await;
    let clients = [ours, bare().await].map(|address| GateClient::new(channel(&address)));
    let mut latencies = [Vec::new(), Vec::new()];
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (at, client) in clients.iter().enumerate() {
            one_by_one(client.clone(), &mut latencies[at]).await;
        }
        for (at, client) in clients.iter().enumerate() {
            rates[at].push(together(client).await);
        }
    }
    let us = |times: &mut Vec<Duration>, percent| percentile(times, percent).as_secs_f64() * 1e6;
    let [ours, bare] = &mut latencies;
    let (median, bare_median) = (us(ours, 50), us(bare, 50));
    let rates = rates.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    });
    println!("\na call through a gate to a node, beside two bare hops, {PAYLOAD} bytes");
    println!("                     gate and node   two bare hops   ratio   aim");
    println!(
        "  median latency     {median:10.0} us   {bare_median:10.0} us   {:5.2}   <= 1.3",
        median / bare_median
    );
    let (slow, bare_slow) = (us(ours, 99), us(bare, 99));
    println!(
        "  99 % within        {slow:10.0} us   {bare_slow:10.0} us   {:5.2}",
        slow / bare_slow
    );
    println!(
        "  {CALLERS} callers         {:10.0}/s    {:10.0}/s    {:5.2}   >= 0.7",
        rates[0],
        rates[1],
        rates[0] / rates[1]
    );
}

fn request(number: usize) -> Request<gate::CallRequest> {
    let mut request = Request::new(gate::CallRequest {
        object_type: TYPE.to_owned(),
        object: format!("echo-{}", number % 256),
        method: "echo".to_owned(),
        payload: Bytes::from_static(&[7; PAYLOAD]),
    });
    request.set_timeout(Duration::from_secs(10));
    request
}

async fn one_by_one(mut client: GateClient<Channel>, times: &mut Vec<Duration>) {
    for number in 0..CALLS {
        let start = Instant::now();
        client.call(request(number)).await.unwrap();
        times.push(start.elapsed());
    }
}

/// Calls a second.
async fn together(client: &GateClient<Channel>) -> f64 {
    let (mut callers, start) = (JoinSet::new(), Instant::now());
    for caller in 0..CALLERS {
        let mut client = client.clone();
        callers.spawn(async move {
            let mut calls = 0;
            while start.elapsed() < SPAN {
                client.call(request(caller * 17 + calls)).await.unwrap();
                calls += 1;
            }
            calls
        });
    }
    let calls: usize = callers.join_all().await.into_iter().sum();
    calls as f64 / start.elapsed().as_secs_f64()
}
