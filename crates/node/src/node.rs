use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use shardwright_api::CallError;
use shardwright_cluster::{Cluster, JoinError};
use shardwright_contracts::{Env, ShardId};
use shardwright_engine::watch;
use shardwright_placement::{NodeAddress, NodeInstance, ObjectIdError, Sharding};

use crate::agent::Agent;
use crate::call::Call;
use crate::host::ObjectHost;
use crate::notices::{NoticeLog, RetryNotices};
use crate::object::ObjectTypes;
use crate::options::{AutoLoad, NodeOptions};
use crate::readiness::{StoreProbe, Unready};
use crate::router::Router;
use crate::transport::{BoxFuture, CallService, ShardLoad, Transport};
use crate::waiting::Queue;

/// A node of a cluster. It claims its shards, serves their objects, and hands shards over when
/// their target changes.
///
/// Dropping it is like a crash: nothing is handed over, and other nodes claim its shards after its
/// session has expired. To leave properly, [`drain`](Self::drain) it.
pub struct Node {
    address: NodeAddress,
    router: Arc<Router>,
    local: Arc<CurrentHost>,
    service: Arc<Own>,
    desired: watch::Sender<DesiredState>,
    state: watch::Receiver<NodeState>,
    notice_log: Arc<NoticeLog>,
}

/// Why a node did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The node could not join.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// A type to load automatically is not registered.
    #[error("cannot load objects of type {0}: the type is not registered")]
    UnknownType(Arc<str>),
    /// The ids of objects to load automatically are invalid.
    #[error("cannot load objects of type {object_type} in every shard: {why}")]
    Name {
        /// The type.
        object_type: Arc<str>,
        /// Why the ids are invalid.
        why: ObjectIdError,
    },
}

/// The state that the owner of a node has requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DesiredState {
    Serve,
    Drain,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It is a member and serves its shards.
    Serving,
    /// It is a member and hands over its shards.
    Draining,
    /// Its session has ended. It serves nothing, and is about to join again.
    Rejoining,
    /// It has handed over or released all its shards, and has left.
    Left,
    /// It has left without handing over all its shards: its session ended, or the store refused a
    /// release. Other nodes claim its shards at the latest when its session expires.
    Gone,
    /// Its own code panicked. It serves nothing, and other nodes claim its shards when its session
    /// expires.
    Failed,
    /// The cluster was deleted. The node has left it, and serves nothing.
    Deleted,
}

impl NodeState {
    /// Whether the node has ended.
    const fn is_over(self) -> bool {
        matches!(self, Self::Left | Self::Gone | Self::Failed | Self::Deleted)
    }
}

impl Node {
    /// Joins a cluster. `address` is where other processes reach its [`service`](Self::service).
    pub async fn start(
        cluster: Cluster,
        address: NodeAddress,
        types: ObjectTypes,
        transport: Arc<dyn Transport>,
        options: NodeOptions,
    ) -> Result<Self, StartError> {
        check_auto_load(&options.auto_load, &types, cluster.config().sharding)?;
        let membership = cluster.join(address.clone(), options.weight).await?;
        let queue = Arc::new(Queue::new(options.held));
        let local = Arc::new(CurrentHost::new());
        let own = Some(Arc::clone(&local));
        let router = Arc::new(Router::new(cluster.clone(), transport, queue, own));
        let desired = watch::Sender::new(DesiredState::Serve);
        let (state_sender, state) = watch::channel(NodeState::Serving);
        let notice_log = Arc::new(NoticeLog::new(Arc::clone(cluster.env())));
        let agent = Arc::new(Agent {
            cluster: cluster.clone(),
            address: address.clone(),
            types,
            options,
            router: Arc::downgrade(&router),
            queue: Arc::clone(router.queue()),
            local: Arc::clone(&local),
            desired: desired.subscribe(),
            state: state_sender,
            notice_log: Arc::clone(&notice_log),
        });
        // Calls are answered from here on, before the first claim.
        agent.begin(&membership);
        cluster.env().spawn(Box::pin(agent.run(membership)));
        let service = Own { local: Arc::clone(&local), probe: StoreProbe::new(cluster) };
        let service = Arc::new(service);
        Ok(Self { address, router, local, service, desired, state, notice_log })
    }

    /// Its address.
    #[must_use]
    pub const fn address(&self) -> &NodeAddress {
        &self.address
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        self.router.cluster()
    }

    /// Its instance in the current session, if it has one.
    #[must_use]
    pub fn holder(&self) -> Option<NodeInstance> {
        self.local.now().map(|(holder, _)| holder)
    }

    /// Its objects in the current session, if it has one.
    pub(crate) fn host(&self) -> Option<Arc<ObjectHost>> {
        self.local.now().map(|(_, host)| host)
    }

    /// The shards that it serves.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardId> {
        let host = self.host();
        host.map(|host| host.held().map(|(shard, _)| shard).collect()).unwrap_or_default()
    }

    /// Its state, and changes of it.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<NodeState> {
        self.state.clone()
    }

    /// Activities that keep failing, and new notices.
    #[must_use]
    pub fn notices(&self) -> watch::Receiver<RetryNotices> {
        self.notice_log.notices()
    }

    /// The service for a server at this node's address. It answers calls to the objects of this
    /// node and refuses others.
    #[must_use]
    pub fn service(&self) -> Arc<dyn CallService> {
        Arc::clone(&self.service) as Arc<dyn CallService>
    }

    /// Calls an object on any node, like a gate.
    pub async fn call(&self, call: Call) -> Result<Bytes, CallError> {
        self.router.route(call).await
    }

    /// The number of calls that are held.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.router.queue().len()
    }

    /// Hands over every shard and leaves the cluster. No call fails because of it. Calls that still
    /// arrive get [`CallError::NotServing`], so keep the server running for a moment.
    ///
    /// Returns [`NodeState::Left`], or [`NodeState::Gone`] if not everything was handed over. A
    /// node that had ended before returns [`NodeState::Failed`] or [`NodeState::Deleted`].
    pub async fn drain(&self) -> NodeState {
        self.desired.send_replace(DesiredState::Drain);
        let mut state = self.state.clone();
        let ended = state.wait_for(|state| state.is_over());
        // The sender is dropped if the agent has failed.
        ended.await.map_or(NodeState::Failed, |state| *state)
    }
}

/// Checks the objects to load. A later failure would only be a notice.
fn check_auto_load(
    auto_load: &[AutoLoad],
    types: &ObjectTypes,
    sharding: Sharding,
) -> Result<(), StartError> {
    let last = sharding.num_shards.shards().next_back();
    for one in auto_load {
        let object_type = &one.object_type;
        if types.get(object_type).is_err() {
            return Err(StartError::UnknownType(object_type.clone()));
        }
        // The last shard has the longest id.
        if let Some(Err(why)) = last.map(|shard| one.key(shard)) {
            return Err(StartError::Name { object_type: object_type.clone(), why });
        }
    }
    Ok(())
}

struct Own {
    local: Arc<CurrentHost>,
    probe: StoreProbe,
}

impl CallService for Own {
    fn answer(&self, call: Call) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(async move {
            match self.local.now() {
                Some((_, host)) => host.serve(call).await,
                None => Err(CallError::NotServing),
            }
        })
    }

    fn loads(&self) -> Result<Vec<ShardLoad>, CallError> {
        self.local.now().map(|(_, host)| host.loads()).ok_or(CallError::NotServing)
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), Unready>> {
        Box::pin(async move {
            match self.local.now() {
                Some((_, host)) if host.serving().may_serve() => self.probe.check().await,
                _ => Err(Unready::Session),
            }
        })
    }
}

/// The current session of a node, if it has one: its instance, and its objects.
pub(crate) struct CurrentHost {
    now: Mutex<Option<(NodeInstance, Arc<ObjectHost>)>>,
}

impl CurrentHost {
    pub(crate) fn new() -> Self {
        Self { now: Mutex::new(None) }
    }

    pub(crate) fn now(&self) -> Option<(NodeInstance, Arc<ObjectHost>)> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, session: Option<(NodeInstance, Arc<ObjectHost>)>) {
        // The old value is dropped after the lock, because it may be the last reference to its
        // host.
        let _before = {
            let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *now, session)
        };
    }
}
