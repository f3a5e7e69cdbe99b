use std::sync::Arc;
use std::time::Duration;

use super::answer::Namespace;
use super::client::Client;
use super::failure::EtcdFailure;
use super::options::{EtcdOptions, EtcdServerLimits, EtcdTimeouts};
use super::session::KeepAlive;
use super::transaction::{Composer, RequestBudget};
use super::{read, session, watch};
use crate::batch::Batcher;
use crate::commit::Commit;
use crate::error::{
    CommitError, Fault, FaultKind, ScanError, SessionError, StoreError, WatchError,
};
use crate::key::{Key, StoreRange};
use crate::limits::StoreLimits;
use crate::store::{Revision, ScanFrom, ScanPage, Session, SessionId, Snapshot, Store};
use crate::watch::Changes;

const NAMESPACE_BYTES_MAX: usize = 64;

/// A store on an etcd cluster.
///
/// A clone is another handle to the same store. All handles share the connection, and their commits
/// share requests.
#[derive(Clone, Debug)]
pub struct EtcdStore {
    batcher: Batcher<Shared>,
}

/// What all handles to a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) client: Arc<Client>,
    pub(crate) composer: Composer,
    pub(crate) keep_alive: KeepAlive,
    pub(crate) average: read::Average,
    pub(crate) watch_capacity: usize,
}

impl EtcdStore {
    /// Connects to the cluster. Call it within a tokio runtime with time and network, which must
    /// outlive the store.
    pub async fn connect(options: EtcdOptions) -> Result<Self, StoreError> {
        check(&options).map_err(StoreError::Unavailable)?;
        let namespace = Namespace::new(options.namespace.clone());
        let budget = RequestBudget::new(&options.server_limits, &namespace);
        let watch_capacity = options.watch_capacity;
        let client = Arc::new(Client::new(options).map_err(StoreError::Unavailable)?);
        let shared = Shared {
            keep_alive: KeepAlive::new(Arc::clone(&client)),
            client,
            composer: Composer { namespace, budget },
            average: read::Average::default(),
            watch_capacity,
        };
        // A first read, with the retries of any other.
        read::load(&shared, &[]).await?;
        Ok(Self { batcher: Batcher::new(Arc::new(shared)) })
    }

    pub(super) fn shared(&self) -> &Shared {
        self.batcher.engine()
    }
}

impl Store for EtcdStore {
    async fn load(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        read::load(self.shared(), keys).await
    }

    async fn scan(&self, range: &StoreRange, page: ScanFrom) -> Result<ScanPage, ScanError> {
        read::scan(self.shared(), range, page).await
    }

    async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        commit.check(&self.limits())?;
        self.batcher.commit(commit).await
    }

    async fn watch(&self, range: &StoreRange, after: Revision) -> Result<Changes, WatchError> {
        watch::watch(self.batcher.engine(), range, after).await
    }

    async fn open_session(&self, ttl: Duration) -> Result<Session, SessionError> {
        session::open(self.shared(), ttl).await
    }

    async fn keep_alive(&self, session: SessionId) -> Result<(), SessionError> {
        self.shared().keep_alive.renew(session).await
    }

    async fn close_session(&self, session: SessionId) -> Result<(), SessionError> {
        session::close(self.shared(), session).await
    }

    fn limits(&self) -> StoreLimits {
        self.shared().composer.budget.limits()
    }
}

fn check(options: &EtcdOptions) -> Result<(), Fault> {
    let wrong = |text: String| Err(Fault::new(FaultKind::Other, text));
    let namespace = options.namespace.len();
    if namespace == 0 || namespace > NAMESPACE_BYTES_MAX {
        let text = format!("a namespace has 1 to {NAMESPACE_BYTES_MAX} bytes, not {namespace}");
        return wrong(text);
    }
    let EtcdTimeouts { connect, call, .. } = options.timeouts;
    if connect >= call {
        let text = format!("the connect timeout {connect:?} must be below call timeout {call:?}");
        return wrong(text);
    }
    let EtcdServerLimits { operations, bytes } = options.server_limits;
    if operations < EtcdServerLimits::LEAST.operations || bytes < EtcdServerLimits::LEAST.bytes {
        let limits = format!("{operations} operations and {bytes} bytes in a request");
        return wrong(format!("a limit of {limits} is too low for a store"));
    }
    Ok(())
}

/// The error of a failed read.
pub(crate) fn store_error(failure: EtcdFailure) -> StoreError {
    if failure.fault.kind == FaultKind::Damaged {
        StoreError::Corrupt(failure.fault)
    } else {
        StoreError::Unavailable(failure.fault)
    }
}
