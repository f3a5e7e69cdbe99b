//! Scenarios that every backend must pass.
//!
//! A backend under test implements [`Harness`] and calls the macro
//! [`conformance_suite!`](crate::conformance_suite), which makes one test of each scenario.
//! Scenarios use only the methods of the async traits and bring their own tenants and runs, so they
//! can share one backend. A scenario that fails panics with what it saw.
//!
//! The suite covers behaviour that is the same for all backends. Each backend tests its own limits,
//! sessions and faults.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a scenario that fails panics, which is how a test reports"
)]

pub mod claims;
pub mod events;
pub mod idempotency;
pub mod leases;
pub mod lists;
pub mod names;
pub mod runs;
pub mod splits;
pub mod strangers;

use std::future::Future;

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, InitialShardInput, OpId, RunId, ShardId, ShardKey, ShardSpecRef,
    TenantId, WorkerId,
};

use crate::async_traits::{AsyncCoordinationBackend, AsyncRunManagement};
use crate::backend::Backend;
use crate::events::StateTransitionEvent;
use crate::lease::Lease;
use crate::record::RunConfig;
use crate::restore::HolderNotice;
use crate::summary::{ShardFilter, ShardSummary};

/// Asserts that an answer is this refusal.
macro_rules! assert_refused {
    ($answer:expr, $refusal:pat) => {{
        let answer = $answer;
        assert!(matches!(answer, Err($refusal)), "{answer:?}");
    }};
}
use assert_refused;

/// A backend under test, with a clock that the test moves. Workers wait for [`COOLDOWN_MS`] between
/// two claims.
pub trait Harness: Sync {
    /// The backend.
    type Backend: Backend;

    /// The backend.
    fn backend(&self) -> &Self::Backend;

    /// A tenant that no other scenario uses.
    fn fresh_tenant(&self) -> TenantId;

    /// Advances the clock of the test and of the backend.
    fn advance(&self, millis: u64) -> impl Future<Output = ()> + Send;

    /// The events of a tenant since the last call, oldest first.
    fn take_events(
        &self,
        tenant: TenantId,
    ) -> impl Future<Output = Vec<StateTransitionEvent>> + Send;
}

/// How long workers pause between two claims, in milliseconds.
pub const COOLDOWN_MS: u64 = 50;

/// Maximum answers in a row without a notice.
const NOTICES_MAX: u32 = 20;

/// How long leases last in the scenarios, in milliseconds.
pub const LEASE_MS: u64 = 10_000;

/// One tenant with one run, and shorthand for frequent steps.
struct World<'h, H> {
    harness: &'h H,
    tenant: TenantId,
    run: RunId,
}

impl<'h, H: Harness> World<'h, H> {
    /// A run with shards between the given bounds, numbered from 0.
    async fn new(harness: &'h H, bounds: &[&[u8]]) -> Self {
        let config = RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, None).unwrap();
        Self::with_config(harness, bounds, config).await
    }

    /// Like [`World::new`], with another configuration.
    async fn with_config(harness: &'h H, bounds: &[&[u8]], config: RunConfig) -> Self {
        let (tenant, run) = (harness.fresh_tenant(), RunId::from_raw(1));
        let shards = manifest(bounds);
        let op = OpId::from_raw(u64::MAX);
        let created = harness.backend().create_run_with_shards(tenant, run, config, &shards, op);
        created.await.unwrap();
        Self { harness, tenant, run }
    }

    fn backend(&self) -> &'h H::Backend {
        self.harness.backend()
    }

    fn key(&self, shard: u64) -> ShardKey {
        ShardKey::new(self.run, ShardId::from_raw(shard))
    }

    async fn acquire(&self, shard: u64, worker: u64) -> Lease {
        self.acquire_id(ShardId::from_raw(shard), worker).await
    }

    async fn acquire_id(&self, shard: ShardId, worker: u64) -> Lease {
        let (key, worker) = (ShardKey::new(self.run, shard), WorkerId::from_raw(worker));
        self.backend().acquire_and_restore(self.tenant, key, worker).await.unwrap().lease
    }

    async fn checkpoint(&self, lease: &Lease, key: &str, id: u64) -> bool {
        let cursor = CursorUpdate::at(key.as_bytes());
        let outcome = self.backend().checkpoint(self.tenant, lease, cursor, op(id)).await;
        outcome.unwrap().is_replay()
    }

    async fn complete(&self, lease: &Lease, id: u64) {
        // Keep the progress: the final cursor is the one that the shard was restored with.
        let listed = self.shard(lease.key().shard).await;
        let cursor = CursorUpdate::new(listed.last_key.as_deref(), None);
        self.backend().complete(self.tenant, lease, cursor, op(id)).await.unwrap();
    }

    /// The notice to the holder of a lease. An answer carries none if the backend could not read
    /// it, so the call is repeated.
    async fn notice(&self, lease: &Lease) -> HolderNotice {
        for _ in 0..NOTICES_MAX {
            let renewed = self.backend().renew(self.tenant, lease).await.unwrap();
            if let Some(notice) = renewed.notice {
                return notice;
            }
        }
        panic!("a holder got no notice {NOTICES_MAX} times in a row")
    }

    async fn shards(&self) -> Vec<ShardSummary> {
        self.backend().list_shards(self.tenant, self.run, ShardFilter::all()).await.unwrap()
    }

    async fn shard(&self, shard: ShardId) -> ShardSummary {
        let mut all = self.shards().await;
        let place = all.iter().position(|summary| summary.shard == shard).unwrap();
        all.swap_remove(place)
    }
}

fn op(raw: u64) -> OpId {
    OpId::from_raw(raw)
}

fn manifest<'a>(bounds: &[&'a [u8]]) -> Vec<InitialShardInput<'a>> {
    bounds
        .array_windows()
        .zip(0..)
        .map(|([start, end], id)| InitialShardInput {
            shard: ShardId::from_raw(id),
            spec: ShardSpecRef::new(start, end, b"meta"),
            cursor: CursorUpdate::initial(),
        })
        .collect()
}

/// Makes one test of each scenario.
///
/// `$harness` makes a harness, and `$block_on` runs a future to its end.
#[macro_export]
macro_rules! conformance_suite {
    ($harness:expr, $block_on:expr) => {
        $crate::conformance_suite! { @tests $harness, $block_on,
            leases::{
                fences_rise_with_every_owner,
                lease_expires_at_its_deadline,
                renewal_moves_only_the_deadline,
                zombie_is_fenced_everywhere,
                worker_may_reacquire_after_expiry,
                released_shard_can_be_acquired_at_once,
                done_or_parked_shard_has_no_lease,
                cursors_only_move_forward_within_the_shard,
                empty_shard_completes_with_the_initial_cursor,
                checkpointed_cursor_is_restored,
            }
            idempotency::{
                replay_works_after_the_lease_expired,
                replay_works_after_the_shard_is_done,
                op_id_of_another_request_is_a_conflict,
                evicted_operation_is_checked_as_new,
                unpark_is_replayed,
                release_is_replayed,
            }
            splits::{
                children_tile_the_parent_and_can_be_acquired,
                replaced_split_returns_the_same_children,
                residual_split_keeps_the_parent_active,
                residual_split_outlives_the_op_log,
                split_plan_for_another_state_is_refused,
                unpark_keeps_the_cursor_and_raises_the_fence,
            }
            runs::{
                run_ends_once,
                run_completes_only_without_unfinished_shards,
                shards_of_an_ended_run_do_not_change,
                paused_run_grants_nothing_but_holders_continue,
                repeated_registration_is_a_replay_or_a_conflict,
                run_and_shards_are_created_atomically,
                waiting_run_is_adopted,
                run_transitions_are_replayed,
                acquire_without_progress_parks_the_shard,
                keys_below_the_watermark_are_done,
            }
            claims::{
                every_shard_is_claimed_once,
                expired_shard_can_be_claimed,
                waiting_worker_is_counted_and_can_request_a_split,
                split_request_ends_with_the_lease,
                split_answers_the_request,
                split_request_expires_unless_repeated,
                expired_split_request_is_refused,
                split_request_is_hidden_from_the_next_holder,
                replay_carries_no_notice,
                candidates_can_be_acquired,
                claim_needs_an_active_run,
                claims_of_a_worker_are_throttled,
            }
            lists::{
                list_shows_what_passes_its_filter,
                list_is_in_key_order_and_current,
            }
            names::{
                name_points_to_one_run_at_a_time,
                name_needs_a_new_run_and_a_bounded_description,
                last_estimate_of_each_holder_is_listed,
            }
            events::{
                changes_emit_events_once_and_in_order,
                refusals_emit_no_event,
            }
            strangers::{
                other_tenant_finds_no_run,
                other_tenant_finds_no_shard,
                lease_is_invalid_for_another_tenant,
            }
        }
    };
    (@tests $harness:expr, $block_on:expr, $($group:ident::{$($scenario:ident,)+})+) => {$(
        mod $group {
            use super::*;
            $(
                #[test]
                fn $scenario() {
                    let harness = $harness;
                    let scenario = $crate::conformance::$group::$scenario(&harness);
                    $block_on(scenario);
                }
            )+
        }
    )+};
}
