//! Renewing a lease.

use std::time::Duration;

use futures_util::{FutureExt, select_biased};
use shardwright_coordination::{AsyncCoordinationBackend as _, CoordError, RenewError};

use super::Holder;
use super::lease_cell::LeaseCell;

/// Renewals per usable time of a lease.
const RENEWALS_PER_LEASE: u32 = 3;
/// The reason of a loss when the store did not answer in time.
const LATE: &str = "the lease could not be renewed in time";

impl Holder<'_> {
    /// Renews the lease until that fails, and returns the reason. A split request of another slot
    /// triggers a renewal at once.
    pub(super) async fn keep(&self, cell: &LeaseCell) -> String {
        let env = &self.shared.env;
        let interval = self.shared.usable_lease() / RENEWALS_PER_LEASE;
        let wake_up = self.shared.wake_ups.register(cell.lease().key().shard);
        loop {
            // The reply to a claim or a renewal may arrive when most of the lease is over.
            let wait = interval.min(self.left(cell));
            let (sleep, woken) = (env.sleep(wait).fuse(), wake_up.woken().fuse());
            let (mut sleep, mut woken) = (std::pin::pin!(sleep), std::pin::pin!(woken));
            if !wait.is_zero() {
                select_biased! {
                    () = woken => {}
                    () = sleep => {}
                }
            }
            let left = self.left(cell);
            if left.is_zero() {
                return LATE.to_owned();
            }
            let late = env.sleep(left).fuse();
            let renewed = self.renew(cell).fuse();
            let (mut late, mut renewed) = (std::pin::pin!(late), std::pin::pin!(renewed));
            let refusal = select_biased! {
                result = renewed => result.err(),
                () = late => return LATE.to_owned(),
            };
            if let Some(refusal) = refusal {
                if cell.is_ending() {
                    // Most often the shard has ended, and the reply to the work is in flight. If
                    // another worker owns it, the work is rejected as well.
                    env.sleep(self.left(cell)).await;
                }
                return refusal.to_string();
            }
        }
    }

    /// The usable time left of the lease.
    fn left(&self, cell: &LeaseCell) -> Duration {
        cell.usable_until().saturating_sub(self.shared.env.monotonic())
    }

    /// Renews the lease, and retries until the store answers.
    async fn renew(&self, cell: &LeaseCell) -> Result<(), CoordError> {
        let mut failures = 0;
        loop {
            let requested_at = self.shared.env.monotonic();
            let lease = cell.lease();
            match self.shared.backend.renew(self.shared.tenant, &lease).await {
                Ok(renewed) => {
                    let usable_until = requested_at + self.shared.usable_lease();
                    cell.renew(lease.renewed(renewed.new_deadline), usable_until);
                    cell.notice(renewed.notice);
                    return Ok(());
                }
                Err(RenewError::BackendError(error)) if error.is_retryable() => {
                    self.pause_after(&mut failures, &error).await;
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
    }
}
