use std::sync::Arc;

use shardwright_api::CallError;
use shardwright_cluster::ClusterView;
use shardwright_contracts::ShardId;

use super::counter::Counter;
use super::world::*;
use crate::{AutoLoad, Node, NodeOptions, ObjectTypes, RetryNotice, StartError};

#[tokio::test(start_paused = true)]
async fn every_shard_has_its_object_without_a_call() {
    let world = World::new().await;
    let options =
        || NodeOptions { auto_load: vec![auto_load("janitor")], ..NodeOptions::default() };
    let network = || Arc::clone(&world.network) as _;
    let first = world.node_with("a", options(), network()).await;
    world.settle(1).await;
    let second = world.node_with("b", options(), network()).await;
    world.settle(2).await;
    world.sleep_ms(50).await;
    for process in [&first, &second] {
        let host = process.node.host().unwrap();
        for shard in process.node.shards() {
            assert_eq!(host.objects(shard), Ok(1));
        }
    }
    let activations = world.rows.activations();
    assert_eq!(activations.len(), 64);
    assert_eq!(activations.values().map(Vec::len).sum::<usize>(), 64 + 32);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_object_is_loaded_again_without_a_call() {
    let world = World::with(|config| config.shard_mapping_check_interval_ms = 1_000).await;
    let options = NodeOptions { auto_load: vec![auto_load("janitor")], ..NodeOptions::default() };
    let process = world.node_with("a", options, Arc::clone(&world.network) as _).await;
    world.settle(1).await;
    world.sleep_ms(50).await;
    let (shard, janitor) = (ShardId::from_raw(5), "shard#5/janitor");
    let panicked = process.node.call(call(janitor, "panic")).await;
    assert_eq!(panicked, Err(CallError::Panicked));
    let host = process.node.host().unwrap();
    assert_eq!(host.objects(shard), Ok(0));
    world.sleep_ms(2_000).await;
    assert_eq!(host.objects(shard), Ok(1));
    let activations = world.rows.activations();
    assert_eq!(activations[janitor].len(), 2, "once at the start, and once more");
    assert!(activations.iter().all(|(id, fences)| id == janitor || fences.len() == 1));
}

#[tokio::test(start_paused = true)]
async fn a_node_does_not_start_with_objects_it_cannot_load() {
    let world = World::new().await;
    let start = async |auto_load: AutoLoad| {
        let cluster = world.cluster(Arc::default()).await;
        let counter = Counter { rows: Arc::clone(&world.rows), env: world.env.clone() };
        let types = ObjectTypes::new().with("Counter", counter);
        let options = NodeOptions { auto_load: vec![auto_load], ..NodeOptions::default() };
        let network = Arc::clone(&world.network) as _;
        Node::start(cluster, address("a"), types, network, options).await.map(|_| ())
    };
    let misspelt = AutoLoad { object_type: "Conuter".into(), name: "janitor".into() };
    assert_eq!(start(misspelt).await, Err(StartError::UnknownType("Conuter".into())));
    let nameless = start(auto_load("")).await;
    assert!(matches!(nameless, Err(StartError::Name { .. })), "{nameless:?}");
    assert!(world.watcher.view().members.is_empty(), "no node has joined");
}

#[tokio::test(start_paused = true)]
async fn a_shard_can_move_while_its_objects_are_loaded() {
    let world = World::new().await;
    let auto_loads = vec![auto_load("first"), auto_load("second"), auto_load("third")];
    let options = || NodeOptions { auto_load: auto_loads.clone(), ..NodeOptions::default() };
    let network = || Arc::clone(&world.network) as _;
    let first = world.node_with("a", options(), network()).await;
    let second = world.node_with("b", options(), network()).await;
    world.settle(2).await;
    world.watcher.set_frozen(true).await.unwrap();
    world.sleep_ms(1_000).await;
    for shard in first.node.shards() {
        // It moves again before all its objects are loaded.
        for to in ["b", "a"] {
            world.watcher.move_shard(shard, &address(to)).await.unwrap();
            let to = address(to);
            let holder = |view: &ClusterView| {
                let current = view.map.info(shard).unwrap().current;
                current.map(|one| one.address.clone())
            };
            world.until(|view| holder(view).as_ref() == Some(&to)).await;
        }
    }
    world.sleep_ms(20_000).await;
    for process in [&first, &second] {
        let notices = process.node.notices().borrow().clone();
        assert_eq!(notices.after(0).collect::<Vec<_>>(), Vec::<&RetryNotice>::new());
    }
}
