//! Golden scripts of clusters, one text file each in `tests/scripts/`.
//!
//! A command is followed by its indented answer: the plan, or the route. `UPDATE_SCRIPTS=1`
//! rewrites the answers.

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
    draining_node_is_emptied_at_once
    first_placement_waits_for_stable_nodes
    frozen_cluster_makes_only_forced_moves
    join_moves_the_fewest_shards
    load_moves_from_hottest_to_coldest
    lost_node_moves_only_its_own_shards
    moves_in_flight_are_limited
    node_on_trial_delays_no_shard
    node_that_claims_nothing_is_skipped
    operators_move_and_pin_shards
    pinned_shard_returns_home
    plan_waits_for_a_quorum
    rebalance_stops_at_the_threshold
    route_follows_the_shard_map
    shard_too_heavy_for_any_node_is_reported
    shares_follow_weights
    started_rebalance_runs_to_its_end
}

#[test]
fn every_script_in_the_folder_is_run() {
    let mut files: Vec<String> = std::fs::read_dir(script_runner::folder())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert_eq!(files, SCRIPTS);
}
