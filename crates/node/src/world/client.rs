use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::limits::{MAX_LOADS_SIZE, MAX_MESSAGE_SIZE, MAX_TIMEOUT};
use shardwright_api::wire::node::LoadsRequest;
use shardwright_api::wire::node::node_client::NodeClient;
use shardwright_api::{CallError, UnknownWhy, error_of_status};
use shardwright_placement::NodeAddress;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, ConnectError, Request, Status, TimeoutExpired};

use super::message;
use crate::call::Call;
use crate::transport::{BoxFuture, ShardLoad, Transport};

/// Options of connections to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcOptions {
    /// The timeout of connecting.
    pub connect_timeout: Duration,
    /// The interval of keep-alive pings.
    pub keep_alive_interval: Duration,
    /// The timeout of a ping.
    pub keep_alive_timeout: Duration,
}

impl Default for GrpcOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(1),
            keep_alive_interval: Duration::from_secs(2),
            keep_alive_timeout: Duration::from_secs(4),
        }
    }
}

/// Calls over gRPC. It has one connection to each node, opened on first use and reopened after a
/// failure. A connection is closed when its node is no longer a member, so a transport serves one
/// cluster.
#[derive(Debug, Default)]
pub struct GrpcTransport {
    options: GrpcOptions,
    connections: Mutex<BTreeMap<NodeAddress, NodeClient<Channel>>>,
}

impl GrpcTransport {
    /// A transport without connections.
    #[must_use]
    pub fn new(options: GrpcOptions) -> Self {
        Self { options, connections: Mutex::default() }
    }

    fn connection(&self, node: &NodeAddress) -> Result<NodeClient<Channel>, CallError> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = connections.get(node) {
            return Ok(client.clone());
        }
        let endpoint = Endpoint::from_shared(format!("http://{node}"));
        let endpoint = endpoint.map_err(|error| unreachable_node(node, &error))?;
        let channel = endpoint
            .connect_timeout(self.options.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(self.options.keep_alive_interval)
            .keep_alive_timeout(self.options.keep_alive_timeout)
            .initial_connection_window_size(Some(16 << 20))
            .initial_stream_window_size(Some(1 << 20))
            .connect_lazy();
        let client = NodeClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_SIZE)
            .max_encoding_message_size(MAX_MESSAGE_SIZE);
        connections.insert(node.clone(), client.clone());
        Ok(client)
    }
}

impl Transport for GrpcTransport {
    fn call<'a>(
        &'a self,
        node: &'a NodeAddress,
        call: Call,
    ) -> BoxFuture<'a, Result<Bytes, CallError>> {
        Box::pin(async move {
            let mut client = self.connection(node)?;
            let timeout = call.timeout.min(MAX_TIMEOUT);
            let mut request = Request::new(message::to_node(call));
            request.set_timeout(timeout);
            match client.call(request).await {
                Ok(response) => Ok(response.into_inner().payload),
                Err(status) => Err(meaning(node, &status)),
            }
        })
    }

    fn loads<'a>(
        &'a self,
        node: &'a NodeAddress,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Vec<ShardLoad>, CallError>> {
        Box::pin(async move {
            let mut client = self.connection(node)?.max_decoding_message_size(MAX_LOADS_SIZE);
            let mut request = Request::new(LoadsRequest {});
            request.set_timeout(timeout.min(MAX_TIMEOUT));
            match client.loads(request).await {
                Ok(response) => Ok(message::from_loads(response.into_inner())),
                Err(status) => Err(meaning(node, &status)),
            }
        })
    }

    fn keep_only(&self, is_member: &dyn Fn(&NodeAddress) -> bool) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        // Running calls keep their connection open.
        connections.retain(|node, _| is_member(node));
    }
}

/// The error of a status: the node's own, or what is known without it.
fn meaning(node: &NodeAddress, status: &Status) -> CallError {
    if let Some(error) = error_of_status(status) {
        return error;
    }
    if let Some(error) = cause::<ConnectError>(status) {
        // There was no connection, so nothing was sent.
        return unreachable_node(node, error);
    }
    let late = cause::<TimeoutExpired>(status).is_some() || status.code() == Code::DeadlineExceeded;
    CallError::Unknown(if late { UnknownWhy::Late } else { UnknownWhy::Lost })
}

fn unreachable_node(node: &NodeAddress, error: &dyn StdError) -> CallError {
    CallError::Unreachable { node: node.to_string(), reason: error.to_string() }
}

fn cause<E: StdError + 'static>(status: &Status) -> Option<&E> {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use shardwright_api::status_of_error;

    use super::*;

    fn of(status: &Status) -> CallError {
        meaning(&NodeAddress::parse("a:1").unwrap(), status)
    }

    #[tokio::test]
    async fn connections_to_former_members_are_closed() {
        let transport = GrpcTransport::default();
        let nodes: Vec<_> =
            (1..=3).map(|port| NodeAddress::parse(&format!("127.0.0.1:{port}")).unwrap()).collect();
        for node in &nodes {
            transport.connection(node).unwrap();
        }
        transport.keep_only(&|node| *node != nodes[1]);
        let left: Vec<_> = transport.connections.lock().unwrap().keys().cloned().collect();
        assert_eq!(left, [nodes[0].clone(), nodes[2].clone()]);
    }

    #[tokio::test]
    async fn any_timeout_is_accepted() {
        let transport = GrpcTransport::default();
        let absent = NodeAddress::parse("127.0.0.1:1").unwrap();
        let id = shardwright_placement::ObjectId::parse("x").unwrap();
        let call = Call::new(crate::ObjectKey::new("Echo", id), "echo", "", Duration::MAX);
        let answer = transport.call(&absent, call).await;
        assert!(matches!(answer, Err(CallError::Unreachable { .. })), "{answer:?}");
        let answer = transport.loads(&absent, Duration::MAX).await;
        assert!(matches!(answer, Err(CallError::Unreachable { .. })), "{answer:?}");
    }

    #[test]
    fn the_error_of_the_node_is_returned() {
        for error in [CallError::NotServing, CallError::Panicked, CallError::Late] {
            assert_eq!(of(&status_of_error(&error)), error);
        }
    }

    #[test]
    fn only_a_failed_connection_proves_that_nothing_was_sent() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let status = Status::from_error(Box::new(ConnectError(Box::new(refused))));
        assert!(matches!(of(&status), CallError::Unreachable { .. }));
        for status in [
            Status::unavailable("error trying to connect, from a proxy"),
            Status::internal("h2 protocol error: http2 error"),
            Status::cancelled("operation was canceled"),
            Status::unimplemented("what?"),
        ] {
            assert_eq!(of(&status), CallError::Unknown(UnknownWhy::Lost));
        }
        let late = Status::deadline_exceeded("too late");
        assert_eq!(of(&late), CallError::Unknown(UnknownWhy::Late));
        let late = Status::from_error(Box::new(TimeoutExpired(())));
        assert_eq!(of(&late), CallError::Unknown(UnknownWhy::Late));
    }
}
