//! One connection to one member.

use std::time::Duration;

use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::failure::{Effect, EtcdFailure, Remedy, ServerMessage};
use super::options::{Credentials, EtcdOptions};
use super::wire::auth_client::AuthClient;
use super::wire::kv_client::KvClient;
use super::wire::lease_client::LeaseClient;
#[cfg(feature = "test-support")]
use super::wire::maintenance_client::MaintenanceClient;
use super::wire::watch_client::WatchClient;
use super::wire::{AuthenticateRequest, RangeRequest};
use crate::error::{Fault, FaultKind};

/// A member without a leader then reports it instead of waiting.
const REQUIRE_LEADER: &str = "hasleader";
const TOKEN: &str = "token";

/// A connection that has answered a read. So no write is risked on a connection that does not work.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: u64,
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
    /// Whether a user name is configured, even if no member has required it yet.
    has_name: bool,
}

impl Connection {
    /// Connects, authenticates, and reads a key.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        id: u64,
        options: &EtcdOptions,
    ) -> Result<Self, EtcdFailure> {
        let limit = options.timeouts.connect;
        let opening = async {
            let channel = endpoint.connect().await.map_err(|error| {
                let text = format!("cannot connect to {}", endpoint.uri());
                EtcdFailure::unconnected(Fault::new(FaultKind::Unreachable, text).because(error))
            })?;
            let has_name = options.credentials.is_some();
            let mut connection = Self { id, channel, token: None, has_name };
            if let Some(credentials) = &options.credentials {
                connection.token = connection.authenticate(credentials, limit).await?;
            }
            let key = options.namespace.clone();
            let probe = RangeRequest { key, count_only: true, ..RangeRequest::default() };
            let probed = connection.kv().range(connection.request(probe, limit)).await;
            probed.map_err(|status| connection.failure(status))?;
            Ok(connection)
        };
        let opened = timeout(limit, opening).await.unwrap_or_else(|_late| {
            let text = format!("{} does not answer", endpoint.uri());
            Err(EtcdFailure::unconnected(Fault::new(FaultKind::TimedOut, text)))
        });
        // Whatever happened to the first requests, the caller's request was not sent.
        opened.map_err(|failure| EtcdFailure { effect: Effect::Nothing, ..failure })
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        limit: Duration,
    ) -> Result<Option<MetadataValue<Ascii>>, EtcdFailure> {
        let name = credentials.user.clone();
        let password = credentials.password.clone();
        let request = self.request(AuthenticateRequest { name, password }, limit);
        match self.auth().authenticate(request).await {
            Ok(response) => {
                let token = response.into_inner().token.parse().map_err(|_unprintable| {
                    let text = "etcd returned a token that is no valid header";
                    EtcdFailure::unconnected(Fault::new(FaultKind::Other, text))
                })?;
                Ok(Some(token))
            }
            Err(status) => match EtcdFailure::of(status) {
                // A cluster without authentication accepts clients with a name.
                EtcdFailure { message: Some(ServerMessage::AuthenticationOff), .. } => Ok(None),
                failure => Err(failure),
            },
        }
    }

    /// Classifies the error of a member.
    pub(crate) fn failure(&self, status: Status) -> EtcdFailure {
        let failure = EtcdFailure::of(status);
        if failure.message == Some(ServerMessage::NameMissing)
            && self.has_name
            && self.token.is_none()
        {
            // Authentication was off when this connection was opened. A new connection
            // authenticates.
            return EtcdFailure { remedy: Remedy::AnotherConnection, ..failure };
        }
        failure
    }

    /// A request that a member without a leader refuses, and that members drop after the timeout.
    pub(crate) fn request<T>(&self, message: T, limit: Duration) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(limit);
        self.sign(&mut request);
        request
    }

    /// The same for a stream, without a timeout.
    pub(crate) fn stream<T>(&self, messages: ReceiverStream<T>) -> Request<ReceiverStream<T>> {
        let mut request = Request::new(messages);
        self.sign(&mut request);
        request
    }

    fn sign<T>(&self, request: &mut Request<T>) {
        let metadata = request.metadata_mut();
        metadata.insert(REQUIRE_LEADER, MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            metadata.insert(TOKEN, token.clone());
        }
    }

    pub(crate) fn kv(&self) -> KvClient<Channel> {
        // Requests bound the size of their answers. A limit here would only hide an answer.
        KvClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    pub(crate) fn watch(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    pub(crate) fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    pub(crate) fn auth(&self) -> AuthClient<Channel> {
        AuthClient::new(self.channel.clone())
    }

    #[cfg(feature = "test-support")]
    pub(crate) fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel.clone())
    }
}
