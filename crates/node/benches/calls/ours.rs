//! A cluster of one node and one gate.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use shardwright_api::wire::gate::gate_client::GateClient;
use shardwright_cluster::{Cluster, ClusterName, ClusterOptions};
use shardwright_engine::TokioEnv;
use shardwright_node::limits::ListenLimits;
use shardwright_node::world::{GrpcTransport, Ingress, serve_gate, serve_node};
use shardwright_node::{
    Activation, CallContext, Gate, GateOptions, Node, NodeOptions, ObjectError, ObjectType,
    ObjectTypes,
};
use shardwright_placement::{ClusterConfig, NodeAddress};
use shardwright_store::MachineClock;
use shardwright_store::memory::MemoryStore;
use tokio::net::TcpListener;

use crate::Client;

pub(crate) struct Echo;

impl ObjectType for Echo {
    type Object = ();

    async fn activate(&self, _activation: &Activation) -> Result<(), ObjectError> {
        Ok(())
    }

    async fn handle(
        &self,
        _object: &mut (),
        _context: &CallContext,
        _method: &str,
        payload: Bytes,
    ) -> Result<Bytes, ObjectError> {
        Ok(payload)
    }
}

pub(crate) async fn start() -> (Client, SocketAddr) {
    let env = TokioEnv::current().unwrap();
    let config =
        ClusterConfig { cluster_state_stability_duration_ms: 0, ..ClusterConfig::default() };
    let options = ClusterOptions::new(ClusterName::parse("bench").unwrap(), config);
    let store = MemoryStore::new(Arc::new(MachineClock));
    let open = || Cluster::open(store.clone(), env.clone(), options.clone());
    let transport = || Arc::new(GrpcTransport::default());

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = NodeAddress::parse(&listener.local_addr().unwrap().to_string()).unwrap();
    let types = ObjectTypes::new().with("Echo", Echo);
    let cluster = open().await.unwrap();
    let options = NodeOptions::default();
    let node = Node::start(cluster, address, types, transport(), options).await.unwrap();
    tokio::spawn(serve_node(listener, node.service(), Ingress::new(ListenLimits::NODE), pending()));
    let timeout = std::time::Duration::from_secs(60);
    drop(node.cluster().wait_until_ready(timeout).await.unwrap());
    // It lives as long as the bench.
    std::mem::forget(node);

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let name = NodeAddress::parse(&address.to_string()).unwrap();
    let cluster = open().await.unwrap();
    let gate = Gate::open(cluster, name, transport(), GateOptions::default()).await.unwrap();
    tokio::spawn(serve_gate(listener, gate.service(), Ingress::new(ListenLimits::GATE), pending()));
    std::mem::forget(gate);
    (GateClient::connect(format!("http://{address}")).await.unwrap(), address)
}
