use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::limits::MAX_MESSAGE_SIZE;
use shardwright_api::wire::node::LoadsRequest;
use shardwright_api::wire::node::node_client::NodeClient;
use shardwright_api::{CallError, UnknownWhy, error_of_status};
use shardwright_placement::NodeAddress;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, ConnectError, Request, Status, TimeoutExpired};

use super::message;
use crate::call::Call;
use crate::transport::{BoxFuture, ShardLoad, Transport};

/// How connections to nodes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcOptions {
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// How often the other side is asked whether it is still there.
    pub keep_alive_interval: Duration,
    /// How long it may take to say so.
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

/// Calls over gRPC, with one connection to each node, made when it is first needed and again when
/// it broke.
#[derive(Debug, Default)]
pub struct GrpcTransport {
    options: GrpcOptions,
    connections: Mutex<BTreeMap<NodeAddress, NodeClient<Channel>>>,
}

/// Most connections that are kept. Nodes that left are forgotten with all others, beyond that.
const CONNECTIONS_MAX: usize = 4_096;

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
        if connections.len() >= CONNECTIONS_MAX {
            connections.clear();
        }
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
            let timeout = call.timeout;
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
            let mut client = self.connection(node)?;
            let mut request = Request::new(LoadsRequest {});
            request.set_timeout(timeout);
            match client.loads(request).await {
                Ok(response) => Ok(message::from_loads(response.into_inner())),
                Err(status) => Err(meaning(node, &status)),
            }
        })
    }
}

/// What a status says of a call: the node's own word, or what is known without it.
fn meaning(node: &NodeAddress, status: &Status) -> CallError {
    if let Some(error) = error_of_status(status) {
        return error;
    }
    if let Some(error) = cause::<ConnectError>(status) {
        // There was nothing to send it over.
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

    #[test]
    fn what_the_node_says_is_believed() {
        for error in [CallError::NotServing, CallError::Panicked, CallError::Late] {
            assert_eq!(of(&status_of_error(&error)), error);
        }
    }

    #[test]
    fn only_a_connection_that_was_never_made_carried_nothing() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let status = Status::from_error(Box::new(ConnectError(Box::new(refused))));
        assert!(matches!(of(&status), CallError::Unreachable { .. }));
        for status in [
            Status::unavailable("error trying to connect, says a proxy"),
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
