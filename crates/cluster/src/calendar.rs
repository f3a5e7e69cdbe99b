use std::time::Duration;

use shardwright_contracts::{Env, LogicalTime};

/// The time that plans are made by: what the calendar said when the process came, and from then on
/// a clock that does not jump. So a calendar that is set makes nothing late, and nothing cool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calendar {
    began: LogicalTime,
    began_at: Duration,
}

impl Calendar {
    pub(super) fn new(env: &dyn Env) -> Self {
        Self { began: env.wall_clock(), began_at: env.monotonic() }
    }

    pub(super) fn read(&self, env: &dyn Env) -> LogicalTime {
        let passed = env.monotonic().saturating_sub(self.began_at).as_millis();
        self.began.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}
