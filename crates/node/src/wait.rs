use std::future::Future;
use std::time::Duration;

use shardwright_contracts::Env;

/// What a future comes to before a time on the clock that never jumps; none if it takes longer.
pub(crate) async fn within<T>(
    env: &dyn Env,
    deadline: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let left = deadline.saturating_sub(env.monotonic());
    tokio::select! {
        biased;
        value = future => Some(value),
        () = env.sleep(left) => None,
    }
}
