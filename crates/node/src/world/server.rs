use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message as _;
use shardwright_api::limits::{
    CONNECTION_WINDOW, ListenLimits, MAX_HEADER_SIZE, MAX_LOADS_SIZE, MAX_MESSAGE_SIZE,
    MAX_PENDING_RESETS, STREAM_WINDOW,
};
use shardwright_api::status_of_error;
use shardwright_api::wire::{gate, node};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::{Extensions, Request, Response, Status};

use super::body::{Framing, RequestBody};
use super::connection::Turn;
use super::ingress::{Accepted, Ingress, accept};
use super::metered::{Metered, answer};
use super::{message, timeout as call_timeout};
use crate::call::Origin;
use crate::transport::CallService;

/// The first bytes of every HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves calls of gates and other nodes until `stop` is ready, and finishes running calls within
/// the limits of `ingress`.
pub async fn serve_node(
    listener: TcpListener,
    service: Arc<dyn CallService>,
    ingress: Arc<Ingress>,
    stop: impl Future<Output = ()>,
) {
    let service = node::node_server::NodeServer::new(Peers(service))
        .max_decoding_message_size(MAX_MESSAGE_SIZE)
        .max_encoding_message_size(MAX_LOADS_SIZE);
    serve(listener, Accepted::Members, service, ingress, stop).await;
}

/// Serves calls of clients until `stop` is ready, and finishes running calls within the limits of
/// `ingress`.
pub async fn serve_gate(
    listener: TcpListener,
    service: Arc<dyn CallService>,
    ingress: Arc<Ingress>,
    stop: impl Future<Output = ()>,
) {
    let service = gate::gate_server::GateServer::new(Clients(service))
        .max_decoding_message_size(MAX_MESSAGE_SIZE)
        .max_encoding_message_size(MAX_MESSAGE_SIZE);
    serve(listener, Accepted::Clients, service, ingress, stop).await;
}

async fn serve<S>(
    listener: TcpListener,
    accepted: Accepted,
    service: S,
    ingress: Arc<Ingress>,
    stop: impl Future<Output = ()>,
) where
    S: Service<hyper::Request<RequestBody>, Response = hyper::Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    let limits = *ingress.limits();
    accept(listener, accepted, ingress, stop, |stream, connection, mut closing| {
        let service = Metered::new(service.clone(), Arc::clone(&connection), Framing::Prefix);
        async move {
            let io = tokio::select! {
                biased;
                _ = closing.changed() => return,
                io = timeout(limits.handshake_timeout, handshake(stream)) => io,
            };
            let Ok(Ok(io)) = io else { return };
            let running = builder(&limits, accepted).serve_connection(TokioIo::new(io), service);
            let close = http2::Connection::graceful_shutdown;
            connection.run(running, close, closing).await;
        }
    })
    .await;
}

/// Reads the preface of a connection, and returns the connection with all its bytes. The server
/// itself would wait for a preface without a timeout.
async fn handshake(stream: TcpStream) -> io::Result<impl AsyncRead + AsyncWrite + Unpin> {
    let (mut read, write) = stream.into_split();
    let mut preface = [0; PREFACE.len()];
    read.read_exact(&mut preface).await?;
    if preface != PREFACE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(tokio::io::join(PREFACE.chain(read), write))
}

fn builder(limits: &ListenLimits, accepted: Accepted) -> http2::Builder<TokioExecutor> {
    let resets_max = match accepted {
        Accepted::Clients => MAX_PENDING_RESETS,
        // A gate forwards the resets of its clients. They must not end the connection of all.
        Accepted::Members => limits.streams_max as usize,
    };
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .max_pending_accept_reset_streams(resets_max)
        .max_header_list_size(MAX_HEADER_SIZE as u32)
        .keep_alive_interval(limits.ping_timeout)
        .keep_alive_timeout(limits.ping_timeout)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW);
    builder
}

struct Peers(Arc<dyn CallService>);

struct Clients(Arc<dyn CallService>);

#[tonic::async_trait]
impl node::node_server::Node for Peers {
    async fn call(
        &self,
        request: Request<node::CallRequest>,
    ) -> Result<Response<node::CallResponse>, Status> {
        let timeout = call_timeout::of(request.metadata());
        let origin = origin(request.extensions());
        let call = message::from_peer(request.into_inner(), timeout);
        match answer(&*self.0, call, origin).await {
            Ok(payload) => Ok(Response::new(node::CallResponse { payload })),
            Err(error) => Err(status_of_error(&error)),
        }
    }

    async fn loads(
        &self,
        request: Request<node::LoadsRequest>,
    ) -> Result<Response<node::LoadsResponse>, Status> {
        let loads = self.0.loads().map_err(|error| status_of_error(&error))?;
        let loads = message::to_loads(loads);
        if let Some(origin) = origin(request.extensions()) {
            let counted = origin.count_answer(loads.encoded_len() as u64);
            counted.map_err(|full| status_of_error(&full))?;
        }
        Ok(Response::new(loads))
    }
}

#[tonic::async_trait]
impl gate::gate_server::Gate for Clients {
    async fn call(
        &self,
        request: Request<gate::CallRequest>,
    ) -> Result<Response<gate::CallResponse>, Status> {
        let timeout = call_timeout::of(request.metadata());
        let origin = origin(request.extensions());
        let call = message::from_client(request.into_inner(), timeout);
        match answer(&*self.0, call, origin).await {
            Ok(payload) => Ok(Response::new(gate::CallResponse { payload })),
            Err(error) => Err(status_of_error(&error)),
        }
    }

    async fn delete(
        &self,
        request: Request<gate::DeleteRequest>,
    ) -> Result<Response<gate::DeleteResponse>, Status> {
        let timeout = call_timeout::of(request.metadata());
        let origin = origin(request.extensions());
        let call = message::to_delete(request.into_inner(), timeout);
        match answer(&*self.0, call, origin).await {
            Ok(_empty) => Ok(Response::new(gate::DeleteResponse {})),
            Err(error) => Err(status_of_error(&error)),
        }
    }
}

/// Where a request came from.
fn origin(extensions: &Extensions) -> Option<Arc<Origin>> {
    extensions.get::<Arc<Turn>>().map(|turn| Arc::clone(turn.origin()))
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
