//! Signs of life, by which a session is kept alive.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use shardwright_contracts::Env;
use shardwright_store::SessionError;

/// How many are sent in the time of a session: all but one of them may get lost.
const SIGNS_PER_SESSION: u32 = 5;
/// How many may be on their way at the same time.
const SIGNS_MAX: usize = 5;

/// Keeps a session alive until it has ended, or `send` gives nothing because nobody needs it any
/// more.
///
/// Sends a sign of life in every interval, whether the last one was answered or not. One that is
/// not answered goes on: a store may find out by it that a line is dead, and take another. After
/// one that failed, the next comes sooner. Of each that was answered well, `kept` is told when it
/// was sent; what the store counts from is later than that.
pub async fn keep_alive<Sign>(
    env: &dyn Env,
    ttl: Duration,
    mut send: impl FnMut() -> Option<Sign>,
    mut kept: impl FnMut(Duration),
) where
    Sign: Future<Output = Result<(), SessionError>>,
{
    let interval = ttl / SIGNS_PER_SESSION;
    let mut due_at = env.monotonic().saturating_add(interval);
    let mut due = pin!(env.sleep(interval));
    let mut signs = FuturesUnordered::new();
    loop {
        let answered = tokio::select! {
            biased;
            Some(answered) = signs.next() => Some(answered),
            () = &mut due => None,
        };
        match answered {
            None => {
                let Some(sign) = send() else { return };
                if signs.len() < SIGNS_MAX {
                    let sent_at = env.monotonic();
                    signs.push(async move { (sent_at, sign.await) });
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
