use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use shardwright_api::limits::{MAX_LOADS_SIZE, MAX_MESSAGE_SIZE};
use shardwright_api::status_of_error;
use shardwright_api::wire::{gate, node};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::{message, timeout};
use crate::transport::CallService;

/// The largest number of concurrent calls on one connection: a gate has one to each node, and holds
/// many calls.
const STREAMS_MAX: u32 = 100_000;
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// The server failed.
#[derive(Debug, thiserror::Error)]
#[error("calls cannot be received")]
pub struct ServeError(#[from] tonic::transport::Error);

/// Serves calls of gates and other nodes until `stop` is ready, and finishes running calls.
pub async fn serve_node(
    listener: TcpListener,
    service: Arc<dyn CallService>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let service = node::node_server::NodeServer::new(Peers(service))
        .max_decoding_message_size(MAX_MESSAGE_SIZE)
        .max_encoding_message_size(MAX_LOADS_SIZE);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let mut server = server();
    Ok(server.add_service(service).serve_with_incoming_shutdown(incoming, stop).await?)
}

/// Serves calls of clients until `stop` is ready, and finishes running calls.
pub async fn serve_gate(
    listener: TcpListener,
    service: Arc<dyn CallService>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let service = gate::gate_server::GateServer::new(Clients(service))
        .max_decoding_message_size(MAX_MESSAGE_SIZE)
        .max_encoding_message_size(MAX_MESSAGE_SIZE);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let mut server = server();
    Ok(server.add_service(service).serve_with_incoming_shutdown(incoming, stop).await?)
}

fn server() -> Server {
    Server::builder()
        .tcp_nodelay(true)
        .max_concurrent_streams(Some(STREAMS_MAX))
        .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
        .initial_connection_window_size(Some(16 << 20))
        .initial_stream_window_size(Some(1 << 20))
}

struct Peers(Arc<dyn CallService>);

struct Clients(Arc<dyn CallService>);

#[tonic::async_trait]
impl node::node_server::Node for Peers {
    async fn call(
        &self,
        request: Request<node::CallRequest>,
    ) -> Result<Response<node::CallResponse>, Status> {
        let timeout = timeout::of(request.metadata());
        let answered = match message::from_peer(request.into_inner(), timeout) {
            Ok(call) => self.0.answer(call).await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(payload) => Ok(Response::new(node::CallResponse { payload })),
            Err(error) => Err(status_of_error(&error)),
        }
    }

    async fn loads(
        &self,
        _request: Request<node::LoadsRequest>,
    ) -> Result<Response<node::LoadsResponse>, Status> {
        Ok(Response::new(message::to_loads(self.0.loads())))
    }
}

#[tonic::async_trait]
impl gate::gate_server::Gate for Clients {
    async fn call(
        &self,
        request: Request<gate::CallRequest>,
    ) -> Result<Response<gate::CallResponse>, Status> {
        let timeout = timeout::of(request.metadata());
        let answered = match message::from_client(request.into_inner(), timeout) {
            Ok(call) => self.0.answer(call).await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(payload) => Ok(Response::new(gate::CallResponse { payload })),
            Err(error) => Err(status_of_error(&error)),
        }
    }

    async fn delete(
        &self,
        request: Request<gate::DeleteRequest>,
    ) -> Result<Response<gate::DeleteResponse>, Status> {
        let timeout = timeout::of(request.metadata());
        let answered = match message::to_delete(request.into_inner(), timeout) {
            Ok(call) => self.0.answer(call).await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(_empty) => Ok(Response::new(gate::DeleteResponse {})),
            Err(error) => Err(status_of_error(&error)),
        }
    }
}

/// Waits for SIGTERM or SIGINT. Drain the node then.
pub async fn terminated() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
