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
use crate::router::Router;
use crate::transport::{BoxFuture, CallService, ShardLoad, Transport};
use crate::waiting::Queue;

/// A node of a cluster: claims the shards that it should have, serves their objects, and hands
/// them over when they should be elsewhere.
///
/// Dropping it is like a crash: nothing is handed over, and others have the shards when its session
/// has run out. To leave properly, [`drain`](Self::drain) it.
pub struct Node {
    address: NodeAddress,
    router: Arc<Router>,
    local: Arc<CurrentHost>,
    desired: watch::Sender<DesiredState>,
    state: watch::Receiver<NodeState>,
    notice_log: Arc<NoticeLog>,
}

/// Why a node did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// It did not become a member.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Objects are to be loaded of a type that the node does not know.
    #[error("objects of type {0} are to be loaded, and there are none of that type")]
    UnknownType(Arc<str>),
    /// Objects are to be loaded whose ids would be none.
    #[error("objects of type {object_type} are to be loaded in every shard: {why}")]
    Name {
        /// The type.
        object_type: Arc<str>,
        /// What is wrong with the ids.
        why: ObjectIdError,
    },
}

/// What the owner of a node wants it to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DesiredState {
    Serve,
    Drain,
}

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It is a member, and serves what it has.
    Serving,
    /// It is a member, and gives away what it has.
    Draining,
    /// It has lost its place in the cluster, serves nothing, and is about to join again.
    Rejoining,
    /// It has handed over or released all that it had, and has left.
    Left,
    /// It was to leave, and is no member any more without having handed over what it had: it had
    /// lost its place, or the store did not let it release. Others have its shards at the latest
    /// when its session has run out.
    Gone,
    /// Something in it panicked. It serves nothing any more, and others have its shards when its
    /// session has run out.
    Failed,
}

impl Node {
    /// Joins a cluster. `address` is where others reach the node's [`service`](Self::service).
    pub async fn start(
        cluster: Cluster,
        address: NodeAddress,
        types: ObjectTypes,
        transport: Arc<dyn Transport>,
        options: NodeOptions,
    ) -> Result<Self, StartError> {
        check_auto_load(&options.auto_load, &types, cluster.config().sharding)?;
        let membership = cluster.join(address.clone(), options.weight).await?;
        let queue = Arc::new(Queue::new(options.queue_max));
        let local = Arc::new(CurrentHost::new());
        let own = Some(Arc::clone(&local));
        let router = Arc::new(Router::new(cluster.clone(), transport, queue, own));
        let desired = watch::Sender::new(DesiredState::Serve);
        let (says, state) = watch::channel(NodeState::Serving);
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
            state: says,
            notice_log: Arc::clone(&notice_log),
        });
        // From here on calls are answered, though there is no shard yet.
        agent.begin(&membership);
        cluster.env().spawn(Box::pin(agent.run(membership)));
        Ok(Self { address, router, local, desired, state, notice_log })
    }

    /// Where others reach it.
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
    #[must_use]
    pub fn host(&self) -> Option<Arc<ObjectHost>> {
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

    /// What a server at this node's address needs: it answers calls to the objects of this node,
    /// and refuses those to others.
    #[must_use]
    pub fn service(&self) -> Arc<dyn CallService> {
        Arc::new(Own(Arc::clone(&self.local)))
    }

    /// Calls an object, wherever it is, like a gate does.
    pub async fn call(&self, call: Call) -> Result<Bytes, CallError> {
        self.router.route(call).await
    }

    /// How many calls are held just now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.router.queue().len()
    }

    /// Hands every shard over and leaves the cluster. No call fails because of it; calls that
    /// still arrive get [`CallError::NotServing`], so a server should go on for a moment.
    ///
    /// Returns how it ended: [`NodeState::Left`]; [`NodeState::Gone`] if not everything was handed
    /// over; or [`NodeState::Failed`] if the node had failed and handed nothing over.
    pub async fn drain(&self) -> NodeState {
        self.desired.send_replace(DesiredState::Drain);
        let mut state = self.state.clone();
        let is_over = |state: &NodeState| {
            matches!(state, NodeState::Left | NodeState::Gone | NodeState::Failed)
        };
        let ended = state.wait_for(is_over);
        // The sender is gone if the agent has failed.
        ended.await.map_or(NodeState::Failed, |state| *state)
    }
}

/// Checks that the objects can be loaded: a later failure would only be a notice.
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
        // The last shard has the longest number.
        if let Some(Err(why)) = last.map(|shard| one.key(shard)) {
            return Err(StartError::Name { object_type: object_type.clone(), why });
        }
    }
    Ok(())
}

struct Own(Arc<CurrentHost>);

impl CallService for Own {
    fn answer(&self, call: Call) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(async move {
            match self.0.now() {
                Some((_, host)) => host.serve(call).await,
                None => Err(CallError::NotServing),
            }
        })
    }

    fn loads(&self) -> Vec<ShardLoad> {
        self.0.now().map(|(_, host)| host.loads()).unwrap_or_default()
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
        // What was there goes after the lock does, because it may be the last of its host.
        let _before = {
            let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *now, session)
        };
    }
}
