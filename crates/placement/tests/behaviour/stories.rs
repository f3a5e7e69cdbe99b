//! Stories of clusters, each a text file in `stories/`: what happens, and indented below it what
//! the planner and the routing table say. `UPDATE_SCRIPTS=1` rewrites the answers.

use crate::story_teller;

/// Makes a test of each story, and a list of all.
macro_rules! stories {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                story_teller::check(stringify!($name));
            }
        )+

        const STORIES: &[&str] = &[$(stringify!($name)),+];
    };
}

stories! {
    a_call_is_told_where_to_go
    a_cluster_begins
    a_drained_node_is_emptied_at_once
    a_frozen_cluster_moves_only_what_must_go
    a_heavier_node_gets_more
    a_join_moves_what_the_newcomer_needs
    a_lost_node_loses_only_its_own_shards
    a_node_on_trial_keeps_nothing_waiting
    a_node_that_claims_nothing_is_passed_over
    a_quorum_is_waited_for
    a_rebalance_that_began_goes_on
    a_shard_that_no_node_can_bear_is_reported
    load_moves_from_the_hottest_to_the_coldest
    moves_wait_for_each_other
    operators_move_and_pin
    pinned_shards_come_home
    the_seeds_rebalance_stops_early
}

#[test]
fn every_story_is_played() {
    let mut files: Vec<String> = std::fs::read_dir(story_teller::folder())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert_eq!(files, STORIES);
}
