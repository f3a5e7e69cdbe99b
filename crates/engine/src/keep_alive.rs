//! Keep-alive requests of a session.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use shardwright_contracts::Env;
use shardwright_store::SessionError;

/// Requests per TTL. All but one of them may be lost.
const REQUESTS_PER_TTL: u32 = 5;
/// Requests that may be in flight at once.
const IN_FLIGHT_MAX: usize = 5;

/// Keeps a session alive until it ends or `send` returns none.
///
/// Sends a request per interval, whether or not the last one was answered. An unanswered request
/// stays in flight, because it may make the store detect a dead connection and open another. After
/// a failed request, the next one is sent sooner. After a successful one, `kept` gets the time at
/// which it was sent. The store extends the session from a later time.
pub async fn keep_alive<Request>(
    env: &dyn Env,
    ttl: Duration,
    mut send: impl FnMut() -> Option<Request>,
    mut kept: impl FnMut(Duration),
) where
    Request: Future<Output = Result<(), SessionError>>,
{
    let interval = ttl / REQUESTS_PER_TTL;
    let mut due_at = env.monotonic().saturating_add(interval);
    let mut due = pin!(env.sleep(interval));
    let mut in_flight = FuturesUnordered::new();
    loop {
        let answered = tokio::select! {
            biased;
            Some(answered) = in_flight.next() => Some(answered),
            () = &mut due => None,
        };
        match answered {
            None => {
                let Some(request) = send() else { return };
                if in_flight.len() < IN_FLIGHT_MAX {
                    let sent_at = env.monotonic();
                    in_flight.push(async move { (sent_at, request.await) });
                }
                due_at = env.monotonic().saturating_add(interval);
                due.set(env.sleep(interval));
            }
            Some((sent_at, Ok(()))) => kept(sent_at),
            Some((_, Err(SessionError::Gone(_)))) => return,
            Some((_, Err(SessionError::Store(_)))) => {
                let sooner = env.monotonic().saturating_add(interval / 2);
                if sooner < due_at {
                    due_at = sooner;
                    due.set(env.sleep(interval / 2));
                }
            }
        }
    }
}
