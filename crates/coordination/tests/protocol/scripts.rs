//! Golden scripts of the run protocol, one text file each in `tests/scripts/`.
//!
//! [`script_runner`] describes the language.

use crate::script_runner;

/// Makes a test of each script, and a list of all.
macro_rules! scripts {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                script_runner::check(stringify!($name));
            }
        )+

        const SCRIPTS: &[&str] = &[$(stringify!($name)),+];
    };
}

scripts! {
    attempts_are_unlimited_by_default
    cancelled_run_refuses_a_pending_split
    checks_have_a_fixed_order
    child_cursor_never_exceeds_the_parent_cursor
    children_replace_their_parent
    claim_cooldown_throttles_a_worker
    claim_parks_a_shard_without_attempts_left
    clock_set_back_keeps_fences_and_owners
    complete_follows_the_cursor_rules
    cursor_moves_forward_within_its_range
    declined_split_blocks_requests_for_a_while
    empty_claim_names_the_first_lease_end
    ended_run_refuses_everything_but_retries
    events_carry_their_tenant
    every_change_emits_an_event
    every_operation_is_replayed_or_conflicts
    evicted_checkpoint_at_the_same_key_is_repeated
    evicted_pause_pauses_again
    evicted_release_is_fenced
    evicted_token_change_is_repeated
    evicted_unpark_is_checked_again
    exhausted_bytes_change_nothing
    exhausted_fence_blocks_grants
    expired_lease_is_refused_without_a_new_owner
    fence_floor_invalidates_older_leases
    fence_of_another_worker_is_refused
    first_child_inherits_the_cursor
    floor_raised_during_a_grant_frees_the_shard
    full_op_log_evicts_the_oldest_operation
    full_run_op_log_evicts_the_registration
    holder_is_notified_of_a_split_request
    lease_expires_at_its_deadline
    lease_that_expires_in_a_pause_stays_expired
    lists_follow_their_filter
    longest_lease_does_not_overflow
    manifest_is_checked_before_it_is_stored
    next_owner_resumes_at_the_cursor
    one_of_two_workers_gets_the_last_shard
    one_split_request_per_shard_and_requester
    only_parked_shards_can_be_unparked
    op_id_conflicts_with_another_operation
    op_ids_are_scoped_to_a_shard
    other_tenants_runs_are_invisible
    park_reasons_are_listed
    parked_shard_waits_for_an_unpark
    pause_and_resume_are_idempotent
    paused_run_grants_nothing_and_keeps_holders
    paused_run_offers_no_shard
    progress_resets_the_attempts
    raised_fence_floor_frees_held_shards
    registration_is_replayed_in_any_order
    release_does_not_count_as_an_attempt
    released_shard_is_available_at_once
    renewal_never_shortens_a_lease
    replacing_split_is_never_evicted
    residual_split_is_replayed_after_op_log_eviction
    residual_split_narrows_the_parent
    residual_splits_can_be_nested
    retried_park_does_not_park_again
    retried_run_creation_resumes
    retry_after_completion_is_replayed
    retry_after_expiry_is_replayed
    retry_does_not_disturb_the_next_owner
    run_completes_when_all_shards_are_done
    run_id_is_never_reused
    run_op_id_conflicts_with_another_operation
    run_starts_with_its_registration
    run_transitions_follow_the_status_table
    run_without_room_for_its_shards_is_not_created
    runs_are_independent
    same_worker_gets_a_new_fence
    shard_limits_hold_for_registrations_and_splits
    shard_spawns_at_most_1024_others
    shard_without_progress_is_parked
    split_makes_at_most_256_children
    split_plan_tiles_its_shard
    split_request_ends_with_its_holder
    split_request_ends_with_the_lease
    split_request_expires
    split_request_needs_a_holder
    stale_split_plan_is_refused
    tenants_may_share_ids
    waiting_workers_are_counted
    watermark_never_goes_back
    watermark_passes_gaps
    workers_claim_in_different_orders
    zombie_is_fenced_in_every_operation
}

#[test]
fn every_script_in_the_folder_is_run() {
    let mut found: Vec<String> = std::fs::read_dir(script_runner::folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort();
    let mut listed = SCRIPTS.to_vec();
    listed.sort_unstable();
    assert_eq!(found, listed, "the folder and the list above differ");
}
