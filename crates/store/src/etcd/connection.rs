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

/// A member that does not know of a leader shall say so, rather than let us wait.
const REQUIRE_LEADER: &str = "hasleader";
const TOKEN: &str = "token";

/// A connection over which a read has been answered, so that a write is not risked on one that
/// leads nowhere.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: u64,
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
    /// Whether we have a user name, even if no member has required it yet.
    has_name: bool,
}

impl Connection {
    /// Connects, says who we are, and reads something.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        id: u64,
        options: &EtcdOptions,
    ) -> Result<Self, EtcdFailure> {
        let limit = options.timeouts.connect;
        let opening = async {
            let channel = endpoint.connect().await.map_err(|error| {
                let text = format!("no connection to {}", endpoint.uri());
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
        // Whatever became of the first words, what was to be said has not been said.
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
                    let text = "etcd has given out a token that cannot be sent back";
                    EtcdFailure::unconnected(Fault::new(FaultKind::Other, text))
                })?;
                Ok(Some(token))
            }
            Err(status) => match EtcdFailure::of(status) {
                // Who does not ask for names does not mind that we have one.
                EtcdFailure { message: Some(ServerMessage::AuthenticationOff), .. } => Ok(None),
                failure => Err(failure),
            },
        }
    }

    /// What it means that a member has answered like this.
    pub(crate) fn failure(&self, status: Status) -> EtcdFailure {
        let failure = EtcdFailure::of(status);
        if failure.message == Some(ServerMessage::NameMissing)
            && self.has_name
            && self.token.is_none()
        {
            // Authentication was off when we connected. Another connection authenticates.
            return EtcdFailure { remedy: Remedy::AnotherConnection, ..failure };
        }
        failure
    }

    /// A request that a member without a leader refuses, and that no member works on when the time
    /// is over.
    pub(crate) fn request<T>(&self, message: T, limit: Duration) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(limit);
        self.sign(&mut request);
        request
    }

    /// The same for a stream, which has no end.
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
        // What we ask for is limited where we ask; a limit here would only hide an answer.
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
