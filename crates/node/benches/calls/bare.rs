//! A proxy without logic in front of a server without logic.

use shardwright_api::wire::gate::gate_client::GateClient;
use shardwright_api::wire::gate::gate_server::{Gate, GateServer};
use shardwright_api::wire::node::node_client::NodeClient;
use shardwright_api::wire::node::node_server::{Node, NodeServer};
use shardwright_api::wire::{gate, node};
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

use crate::Client;

struct Echo;

struct Proxy(NodeClient<Channel>);

#[tonic::async_trait]
impl Node for Echo {
    async fn call(
        &self,
        request: Request<node::CallRequest>,
    ) -> Result<Response<node::CallResponse>, Status> {
        Ok(Response::new(node::CallResponse { payload: request.into_inner().payload }))
    }

    async fn loads(
        &self,
        _request: Request<node::LoadsRequest>,
    ) -> Result<Response<node::LoadsResponse>, Status> {
        Ok(Response::new(node::LoadsResponse::default()))
    }
}

#[tonic::async_trait]
impl Gate for Proxy {
    async fn call(
        &self,
        request: Request<gate::CallRequest>,
    ) -> Result<Response<gate::CallResponse>, Status> {
        let gate::CallRequest { object_type, object, method, payload, .. } = request.into_inner();
        let rest = node::CallRequest::default();
        let call = node::CallRequest { object_type, object, method, payload, ..rest };
        let mut request = Request::new(call);
        request.set_timeout(Duration::from_secs(10));
        let answer = self.0.clone().call(request).await?.into_inner();
        Ok(Response::new(gate::CallResponse { payload: answer.payload }))
    }

    async fn delete(
        &self,
        _request: Request<gate::DeleteRequest>,
    ) -> Result<Response<gate::DeleteResponse>, Status> {
        Ok(Response::new(gate::DeleteResponse {}))
    }
}

async fn listen() -> (TcpIncoming, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    (TcpIncoming::from(listener).with_nodelay(Some(true)), address)
}

pub(crate) async fn start() -> Client {
    let (incoming, address) = listen().await;
    let mut server = Server::builder();
    tokio::spawn(server.add_service(NodeServer::new(Echo)).serve_with_incoming(incoming));
    let proxy = Proxy(NodeClient::connect(address).await.unwrap());
    let (incoming, address) = listen().await;
    let mut server = Server::builder();
    tokio::spawn(server.add_service(GateServer::new(proxy)).serve_with_incoming(incoming));
    GateClient::connect(address).await.unwrap()
}
