//! What a planned move and a drain cost, on a real etcd and over sockets of this machine.
//! `cargo xtask bench-cluster` prints the table that `docs/benchmarks.md` records.
#![allow(clippy::print_stdout, reason = "a bench prints")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that fails panics")]

mod fence;
mod moves;
mod site;

use std::time::Duration;

fn main() {
    // Test runners call every bench with this to see whether it starts.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if wanted("moves") {
            moves::report_moves().await;
        }
        if wanted("drain") {
            moves::report_drain().await;
        }
    });
}

/// The time below which a part of all times are.
pub(crate) fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
