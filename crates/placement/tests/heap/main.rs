//! Routing a call does not allocate. A separate binary, because the counter is its allocator.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may use the real world"
)]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics is a test that fails")]

#[path = "../support/mod.rs"]
mod support;

use shardwright_placement::{ObjectIdRef, Route, RoutingTable, ShardHash};

use self::support::Cluster;

#[test]
fn routing_does_not_allocate() {
    for hash in ShardHash::ALL {
        let mut cluster = Cluster::settled(8_192, 3);
        cluster.config.sharding.hash = hash;
        // Some shards are released, so all kinds of routes but one occur.
        cluster.leave("n01");
        let table = RoutingTable::new(&cluster.map, &cluster.members, None, &cluster.config);
        let ids: Vec<String> = (0..1_000)
            .map(|n| match n % 4 {
                0 => format!("shard#{n}/x"),
                1 => format!("n0{}/x", n % 3),
                _ => format!("user-{n}"),
            })
            .collect();
        let (mut there, mut gone) = (0, 0);
        let counted = allocation_counter::measure(|| {
            for id in &ids {
                let id = ObjectIdRef::parse(id).unwrap();
                match table.route(id).unwrap() {
                    Route::There { .. } => there += 1,
                    Route::NodeGone { .. } => gone += 1,
                    _ => {}
                }
            }
        });
        assert_eq!(counted.count_total, 0);
        assert!(there > 500 && gone > 200, "{there} {gone}");
    }
}
