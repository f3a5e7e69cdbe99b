//! Following the changes of a range.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::{Env, InfraError};
use shardwright_store::{AnyStore, ChangeSet, Changes, Revision, Store, StoreRange};
use tokio::sync::oneshot;

/// Pause before a broken watch is opened again.
const PAUSE: Duration = Duration::from_millis(50);
/// Most change sets that are applied at once.
const SETS_MAX: usize = 1_024;

/// State that follows a range of keys. Each method returns none once the state is dropped.
pub trait Follower: Send + Sync {
    /// The store.
    fn store(&self) -> Option<AnyStore>;

    /// Applies change sets, oldest first. All that are pending arrive together.
    fn apply(&self, sets: &[ChangeSet]) -> Option<()>;

    /// Lists the range, and returns the revision of the listing.
    fn relist(&self) -> impl Future<Output = Option<Result<Revision, InfraError>>> + Send;
}

/// Keeps a follower current from `revision` on, until its state or the sender of `gone` is dropped.
pub async fn follow(
    follower: impl Follower,
    range: StoreRange,
    env: Arc<dyn Env>,
    revision: Revision,
    gone: oneshot::Receiver<()>,
) {
    tokio::select! {
        biased;
        _ = gone => {}
        _ = keep_current(&follower, &range, &*env, revision) => {}
    }
}

/// Retry loop: a watch may break at any time, and has missed changes then.
async fn keep_current(
    follower: &impl Follower,
    range: &StoreRange,
    env: &dyn Env,
    mut revision: Revision,
) -> Option<Infallible> {
    loop {
        match follower.store()?.watch(range, revision).await {
            Ok(changes) => pass_on(follower, changes).await?,
            Err(_) => env.sleep(PAUSE).await,
        }
        match follower.relist().await? {
            Ok(at) => revision = at,
            Err(_) => env.sleep(PAUSE).await,
        }
    }
}

/// Passes changes on until the watch breaks.
async fn pass_on(follower: &impl Follower, mut changes: Changes) -> Option<()> {
    loop {
        let (mut next, mut sets) = (Some(changes.next().await), Vec::new());
        while let Some(Ok(set)) = next {
            sets.push(set);
            next = tokio::select! {
                biased;
                next = changes.next(), if sets.len() < SETS_MAX => Some(next),
                () = ready(()) => None,
            };
        }
        follower.apply(&sets)?;
        if next.is_some() {
            return Some(());
        }
    }
}
