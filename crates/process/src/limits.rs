//! Limits of programs.

#[cfg(feature = "programs")]
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time between the signals TERM and KILL, unless another is given.
#[cfg(feature = "programs")]
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
    /// Most bytes that a program may write to stdout, and to stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
}

impl Limits {
    /// These limits, and those of `others` that these lack.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            timeout_ms: self.timeout_ms.or(others.timeout_ms),
            kill_after_ms: self.kill_after_ms.or(others.kill_after_ms),
            max_output_bytes: self.max_output_bytes.or(others.max_output_bytes),
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

    #[cfg(feature = "programs")]
    pub(crate) fn max_output(&self) -> u64 {
        self.max_output_bytes.unwrap_or(u64::MAX)
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

/// Why an item has failed whose program wrote too much to a stream.
#[cfg(feature = "programs")]
pub(crate) fn wrote_too_much(max: u64, stream: &str) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.iter().find(|(_, size)| max >= *size && max.is_multiple_of(*size));
    let (unit, size) = unit.unwrap_or(&("bytes", 1));
    format!("wrote more than {} {unit} to {stream}", max / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_limits_come_before_stored_ones() {
        let given = Limits { timeout_ms: Some(1), ..Limits::default() };
        let stored = Limits { timeout_ms: Some(2), kill_after_ms: Some(3), ..Limits::default() };
        assert_eq!(given.or(stored), Limits { timeout_ms: Some(1), ..stored });
        assert!(Limits::default().is_empty() && !given.is_empty());
    }

    #[cfg(feature = "programs")]
    #[test]
    fn reasons_name_the_limit_as_it_was_given() {
        for (max, shown) in
            [(0, "0 bytes"), (1_000, "1000 bytes"), (65_536, "64 KiB"), (3 << 30, "3 GiB")]
        {
            let reason = wrote_too_much(max, "stderr");
            assert_eq!(reason, format!("wrote more than {shown} to stderr"));
        }
        assert_eq!(timed_out(Duration::from_secs(90)), "timed out after 90 s");
        assert_eq!(timed_out(Duration::from_millis(1_500)), "timed out after 1500 ms");
    }
}
