//! How often an item is tried, and how long to wait in between.

use std::time::Duration;

/// How often an item is tried again before it counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries after the first one.
    pub retries: u32,
    /// The wait before the first of them.
    pub first_wait: Duration,
    /// The longest wait.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        let (first_wait, longest_wait) = (Duration::from_millis(200), Duration::from_secs(30));
        Self { retries: 2, first_wait, longest_wait }
    }
}

impl RetryPolicy {
    /// How long to wait before try number `retry`, counted from 1. It doubles each time, and
    /// chance takes off up to a half, so that what failed together does not come back together.
    #[must_use]
    pub fn wait(&self, retry: u32, chance: u64) -> Duration {
        let doublings = retry.saturating_sub(1).min(31);
        let longest = self.first_wait.saturating_mul(1 << doublings).min(self.longest_wait);
        let thousandths = u32::try_from(chance % 500).unwrap_or_default();
        longest.saturating_sub(longest / 1_000 * thousandths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let policy = RetryPolicy::default();
        let waits = [1, 2, 3, 8, 9, 40].map(|retry| policy.wait(retry, 0).as_millis());
        assert_eq!(waits, [200, 400, 800, 25_600, 30_000, 30_000]);
    }

    #[test]
    fn chance_takes_off_less_than_a_half() {
        let policy = RetryPolicy::default();
        for chance in 0..2_000 {
            let wait = policy.wait(1, chance).as_millis();
            assert!((100..=200).contains(&wait), "{wait}");
        }
    }
}
