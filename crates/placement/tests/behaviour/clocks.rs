//! Stored times come from the clocks of other machines, which may be wrong by any amount.

use shardwright_contracts::LogicalTime;
use shardwright_placement::{MoveReason, Target, TargetSince};

use crate::support::{Cluster, node, shard};

const HOUR_MS: u64 = 3_600_000;

/// Three nodes with three shards each, two hours after time zero.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(9);
    cluster.join_numbered(0..3);
    cluster.pass(2 * HOUR_MS);
    cluster.settle();
    cluster
}

fn later(time: LogicalTime, millis: u64) -> LogicalTime {
    time.saturating_add(millis)
}

fn earlier(time: LogicalTime, millis: u64) -> LogicalTime {
    LogicalTime::from_millis(time.as_millis() - millis)
}

fn meant(name: &str, since: TargetSince) -> Target {
    Target { node: Some(node(name)), since, ..Target::default() }
}

/// Moves shards of `n00` to `n01`, which claims nothing, at a time of another clock.
fn moved(cluster: &mut Cluster, since: LogicalTime, is_heard: bool) {
    let target = meant("n01", TargetSince::Moved(since));
    if is_heard {
        cluster.map.observe_target(shard(0), &target, cluster.now).unwrap();
    } else {
        cluster.map.load_target(shard(0), &target).unwrap();
    }
    cluster.hand_over_without("n01");
}

fn is_late(cluster: &Cluster) -> bool {
    let plan = cluster.plan();
    plan.moves.iter().any(|one| matches!(one.reason, MoveReason::NotClaimed { .. }))
}

#[test]
fn clock_behind_makes_no_recent_move_late() {
    let mut cluster = cluster();
    cluster.pass(HOUR_MS);
    let since = earlier(cluster.now, HOUR_MS);
    moved(&mut cluster, since, true);
    assert!(!is_late(&cluster));
    cluster.pass(59_999);
    assert!(!is_late(&cluster));
    cluster.pass(1);
    assert!(is_late(&cluster));
}

#[test]
fn clock_ahead_delays_nothing() {
    let mut cluster = cluster();
    let since = later(cluster.now, HOUR_MS);
    moved(&mut cluster, since, true);
    cluster.pass(60_000);
    assert!(is_late(&cluster));
}

#[test]
fn future_time_counts_from_the_leaders_start() {
    let mut cluster = cluster();
    cluster.observations.follows_since = cluster.now;
    let since = later(cluster.now, HOUR_MS);
    moved(&mut cluster, since, false);
    cluster.pass(59_999);
    assert!(!is_late(&cluster));
    cluster.pass(1);
    assert!(is_late(&cluster));
}

#[test]
fn move_in_the_future_does_not_extend_the_cooldown() {
    let mut cluster = cluster();
    let since = TargetSince::Moved(later(cluster.now, HOUR_MS));
    for number in [0, 3, 6] {
        cluster.map.load_target(shard(number), &meant("n01", since)).unwrap();
    }
    cluster.hand_over();
    cluster.observations.follows_since = cluster.now;
    cluster.pass(59_999);
    // They may have moved right before the leader started to follow the cluster.
    assert!(cluster.plan().moves.iter().all(|one| one.shard.as_raw() % 3 != 0));
    let free = |cluster: &Cluster| cluster.plan().moves.iter().any(|one| one.shard == shard(0));
    assert!(!free(&cluster));
    cluster.pass(1);
    assert!(free(&cluster));
}

#[test]
fn unknown_time_counts_from_the_leaders_start() {
    let mut cluster = cluster();
    cluster.map.load_target(shard(0), &meant("n01", TargetSince::Unknown)).unwrap();
    cluster.hand_over_without("n01");
    cluster.observations.follows_since = cluster.now;
    assert!(!is_late(&cluster));
    cluster.pass(60_000);
    assert!(is_late(&cluster));
}

#[test]
fn flapping_node_does_not_delay_others() {
    let mut cluster = cluster();
    let since = cluster.now;
    moved(&mut cluster, since, true);
    for _ in 0..5 {
        cluster.pass(11_999);
        cluster.restart("n02");
        cluster.hand_over_without("n01");
        assert!(!is_late(&cluster));
    }
    cluster.pass(5);
    assert!(is_late(&cluster));
}

#[test]
fn lateness_counts_from_join_or_departure() {
    // The former target keeps the shard and then dies with it.
    let mut cluster = cluster();
    cluster
        .map
        .observe_target(shard(0), &meant("n01", TargetSince::Moved(cluster.now)), cluster.now)
        .unwrap();
    cluster.hand_over_without("n00");
    cluster.pass(100_000);
    cluster.leave("n00");
    assert!(!is_late(&cluster));
    cluster.pass(59_999);
    assert!(!is_late(&cluster));
    cluster.pass(1);
    assert!(is_late(&cluster));
    // Each incarnation has the full time again.
    cluster.restart("n01");
    assert!(!is_late(&cluster));
    cluster.pass(60_000);
    assert!(is_late(&cluster));
}
