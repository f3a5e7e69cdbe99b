//! What every backend must do, as scenarios that any backend can run.
//!
//! A backend under test implements [`Harness`] and calls the macro
//! [`conformance_suite!`](crate::conformance_suite), which makes one test of each scenario.
//! Scenarios use the methods of the async traits only, and bring their own tenants and runs, so
//! they can share one backend. A scenario that fails panics with what it saw.
//!
//! The suite says what is the same everywhere. What a backend adds (limits, room, sessions,
//! faults) it tests by itself.
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

/// Says that an answer is this refusal and no other.
macro_rules! assert_refused {
    ($answer:expr, $refusal:pat) => {{
        let answer = $answer;
        assert!(matches!(answer, Err($refusal)), "{answer:?}");
    }};
}
use assert_refused;

/// A backend under test, with a clock that the test moves. Its workers pause for [`COOLDOWN_MS`]
/// between two claims.
pub trait Harness: Sync {
    /// The backend.
    type Backend: Backend;

    /// The backend.
    fn backend(&self) -> &Self::Backend;

    /// A tenant that no other scenario uses.
    fn fresh_tenant(&self) -> TenantId;

    /// Lets time pass, for the backend as well.
    fn advance(&self, millis: u64) -> impl Future<Output = ()> + Send;

    /// What has been told of a tenant since this was last asked for, oldest first.
    fn take_events(
        &self,
        tenant: TenantId,
    ) -> impl Future<Output = Vec<StateTransitionEvent>> + Send;
}

/// How long workers pause between two claims, in milliseconds.
pub const COOLDOWN_MS: u64 = 50;

/// How often a holder may be told nothing.
const NOTICES_MAX: u32 = 20;

/// How long leases last in the scenarios, in milliseconds.
pub const LEASE_MS: u64 = 10_000;

/// One tenant with one run, and shorthand for what scenarios do all the time.
pub struct World<'h, H> {
    harness: &'h H,
    tenant: TenantId,
    run: RunId,
}

impl<'h, H: Harness> World<'h, H> {
    /// A run with shards between the given bounds, numbered from 0.
    pub async fn new(harness: &'h H, bounds: &[&[u8]]) -> Self {
        let config = RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, None).unwrap();
        Self::with_config(harness, bounds, config).await
    }

    /// Like [`World::new`], configured otherwise.
    pub async fn with_config(harness: &'h H, bounds: &[&[u8]], config: RunConfig) -> Self {
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
        // Whatever was done is kept: the last cursor is the one the shard was restored with.
        let listed = self.shard(lease.key().shard).await;
        let cursor = CursorUpdate::new(listed.last_key.as_deref(), None);
        self.backend().complete(self.tenant, lease, cursor, op(id)).await.unwrap();
    }

    /// What the holder of a lease is told. Where that could not be read nothing is told, and the
    /// holder asks again.
    async fn notice(&self, lease: &Lease) -> HolderNotice {
        for _ in 0..NOTICES_MAX {
            let renewed = self.backend().renew(self.tenant, lease).await.unwrap();
            if let Some(notice) = renewed.notice {
                return notice;
            }
        }
        panic!("a holder was told nothing {NOTICES_MAX} times")
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
                a_lease_is_over_at_its_deadline,
                a_renewal_moves_the_deadline_and_nothing_else,
                a_zombie_is_refused_in_everything,
                the_same_worker_may_come_back_after_its_lease,
                a_released_shard_can_be_had_at_once,
                the_end_of_a_shard_ends_its_lease,
                cursors_only_move_forward_and_stay_in_the_shard,
                an_empty_shard_is_completed_with_the_initial_cursor,
                what_was_checkpointed_is_restored,
            }
            idempotency::{
                a_replay_answers_after_the_end_of_the_lease,
                a_replay_answers_after_the_end_of_the_shard,
                an_id_used_for_something_else_is_a_conflict,
                a_forgotten_operation_is_judged_anew,
                an_unpark_is_replayed,
                a_release_is_replayed,
            }
            splits::{
                children_tile_the_parent_and_can_be_worked_on,
                a_replacement_is_replayed_with_the_same_children,
                a_residual_split_lets_the_parent_go_on,
                a_residual_split_is_remembered_for_good,
                a_split_that_does_not_fit_the_shard_is_refused,
                unparking_keeps_the_cursor_and_raises_the_fence,
            }
            runs::{
                a_run_ends_once,
                a_run_is_done_only_when_everything_is,
                nothing_of_an_ended_run_changes,
                a_paused_run_hands_nothing_out_and_holders_go_on,
                registering_again_is_a_replay_or_a_conflict,
                a_run_and_its_shards_are_made_at_once_or_not_at_all,
                a_run_that_waits_for_its_shards_is_taken_up,
                changes_of_a_run_are_replayed_and_done_once,
                a_shard_that_makes_no_progress_parks_itself,
                the_watermark_tells_what_is_done,
            }
            claims::{
                every_shard_is_claimed_once,
                a_shard_comes_back_when_its_lease_is_over,
                a_waiting_worker_is_counted_and_can_ask_for_a_part,
                a_request_ends_with_the_lease_it_was_made_to,
                a_split_answers_the_request,
                a_request_runs_out_unless_it_is_made_again,
                a_request_that_is_over_already_is_refused,
                what_was_asked_of_one_holder_is_hidden_from_the_next,
                a_retry_is_told_nothing_besides,
                candidates_are_what_can_be_acquired,
                nothing_is_claimed_where_there_is_no_run,
                a_worker_pauses_between_two_claims,
            }
            lists::{
                a_list_shows_what_passes_its_filter,
                a_list_is_in_key_order_and_of_the_moment,
            }
            names::{
                a_name_points_to_one_run_at_a_time,
                a_name_is_refused_for_a_used_run_or_a_long_description,
                the_last_estimate_of_each_holder_is_listed,
            }
            events::{
                what_takes_effect_is_told_once_and_in_order,
                nobody_is_told_what_was_refused,
            }
            strangers::{
                a_stranger_finds_no_run,
                a_stranger_finds_no_shard,
                a_lease_is_worth_nothing_in_another_tenants_name,
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
