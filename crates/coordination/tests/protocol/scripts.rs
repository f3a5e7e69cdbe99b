//! Stories of the run protocol, each a text file in `scripts/` that reads like a chat log.
//!
//! The language is explained in [`script_runner`].

use crate::script_runner;

/// Makes a test of each story, and a list of all.
macro_rules! stories {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                script_runner::check(stringify!($name));
            }
        )+

        const STORIES: &[&str] = &[$(stringify!($name)),+];
    };
}

stories! {
    a_cancelled_run_refuses_the_split_that_was_on_its_way
    a_child_may_claim_less_than_its_parent_but_never_more
    a_claim_parks_what_was_tried_too_often
    a_claim_that_finds_nothing_says_when_to_come_back
    a_clock_that_is_set_back_does_no_harm
    a_completion_obeys_the_cursors_rules
    a_cursor_moves_forward_and_stays_inside
    a_fence_alone_does_not_make_an_owner
    a_fence_floor_makes_all_older_leases_stale
    a_floor_that_rises_at_the_moment_of_a_grant_still_frees_the_shard
    a_forgotten_pause_pauses_again
    a_forgotten_release_does_not_end_the_next_lease
    a_forgotten_retry_that_moves_nothing_is_done_again
    a_forgotten_token_change_is_done_again
    a_forgotten_unpark_is_judged_anew
    a_full_op_log_forgets_the_oldest_operation
    a_holder_declines_and_is_left_alone
    a_holder_sees_who_wants_a_part
    a_lease_can_last_to_the_end_of_time
    a_lease_is_over_at_its_deadline
    a_manifest_is_checked_before_anything_is_stored
    a_parked_shard_rests_until_it_is_unparked
    a_part_can_be_asked_only_of_a_holder
    a_paused_run_hands_out_nothing_and_lets_holders_go_on
    a_paused_run_tells_of_nothing_to_have
    a_plan_must_divide_its_shard
    a_raised_fence_floor_frees_what_was_held_before
    a_registration_is_replayed_whatever_its_order
    a_release_does_not_count_as_an_attempt
    a_release_gives_the_shard_back_at_once
    a_renewal_extends_and_never_shortens
    a_request_ends_with_the_lease_it_was_made_to
    a_request_for_a_part_runs_out
    a_request_goes_with_its_holder
    a_residual_split_is_remembered_longer_than_the_op_log
    a_residual_split_narrows_the_parent
    a_retry_after_another_owner_changes_nothing_of_it
    a_retry_after_expiry_gets_its_answer
    a_retry_after_the_shard_is_done_gets_its_answer
    a_retry_of_a_park_does_not_park_again
    a_retry_of_creating_and_registering_finds_what_is_there
    a_run_changes_only_from_the_states_it_may
    a_run_forgets_too
    a_run_id_is_never_used_twice
    a_run_is_complete_when_all_its_shards_are
    a_run_op_id_is_never_two_things
    a_run_starts_in_two_steps
    a_run_that_finds_no_room_is_not_made
    a_shard_spawns_at_most_1024_others
    a_shard_without_progress_parks_itself
    a_split_carries_the_cursor_on
    a_split_is_remembered_for_good
    a_split_makes_at_most_256_children
    a_stale_plan_is_refused
    a_tenant_finds_nothing_of_anothers
    a_worker_waits_between_claims
    a_zombie_is_refused_whatever_it_tries
    a_zombie_of_a_paused_run
    an_expired_lease_can_do_nothing
    an_op_id_counts_per_shard
    an_op_id_is_never_two_things
    bytes_run_out_without_a_trace
    children_take_their_parents_place
    claims_of_different_workers_start_at_different_shards
    each_operation_remembers_what_it_was_asked
    events_are_told_apart_by_tenant
    every_operation_tells_what_it_did
    every_reason_to_park_is_told
    fences_can_run_out
    lists_show_what_is_asked_for
    one_request_per_shard_and_one_per_asker
    only_a_parked_shard_can_be_unparked
    pausing_twice_is_fine
    progress_forgives_earlier_attempts
    refusals_come_in_a_fixed_order
    residuals_are_split_off_twice
    runs_keep_out_of_each_others_way
    shard_limits_hold_for_registrations_and_splits
    the_end_of_a_run_stops_everything
    the_next_owner_goes_on_where_the_last_one_stood
    the_same_worker_gets_a_new_fence
    the_watermark_never_goes_back
    the_watermark_passes_gaps
    two_tenants_may_use_the_same_ids
    two_workers_want_the_last_shard
    without_a_limit_a_shard_is_tried_forever
    workers_that_wait_are_counted
}

#[test]
fn every_story_in_the_folder_is_played() {
    let mut found: Vec<String> = std::fs::read_dir(script_runner::folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort();
    let mut listed = STORIES.to_vec();
    listed.sort_unstable();
    assert_eq!(found, listed, "the folder and the list above differ");
}
