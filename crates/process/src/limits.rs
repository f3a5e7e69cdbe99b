//! Limits of programs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time between the signals TERM and KILL, unless another is given.
const KILL_AFTER: Duration = Duration::from_secs(5);

/// Limits of a program. An absent one does not apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Longest time for an item, or for a batch, in milliseconds. Then its processes get SIGTERM,
    /// and the item fails. A persistent program may be silent for as long while it holds items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Time from SIGTERM to SIGKILL in milliseconds, by default 5 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill_after_ms: Option<u64>,
}

impl Limits {
    /// These limits, and those of `others` that these lack.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            timeout_ms: self.timeout_ms.or(others.timeout_ms),
            kill_after_ms: self.kill_after_ms.or(others.kill_after_ms),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    #[cfg(feature = "programs")]
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }

    #[cfg(feature = "programs")]
    pub(crate) fn kill_after(&self) -> Duration {
        self.kill_after_ms.map_or(KILL_AFTER, Duration::from_millis)
    }
}

/// Why an item has failed that took too long.
#[cfg(feature = "programs")]
pub(crate) fn timed_out(limit: Duration) -> String {
    match (limit.as_secs(), limit.subsec_millis()) {
        (seconds, 0) => format!("timed out after {seconds} s"),
        _ => format!("timed out after {} ms", limit.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_limits_come_before_stored_ones() {
        let given = Limits { timeout_ms: Some(1), ..Limits::default() };
        let stored = Limits { timeout_ms: Some(2), kill_after_ms: Some(3) };
        assert_eq!(given.or(stored), Limits { timeout_ms: Some(1), kill_after_ms: Some(3) });
        assert!(Limits::default().is_empty() && !given.is_empty());
    }
}
