use super::*;
use crate::call::Chain;

#[tokio::test(start_paused = true)]
async fn a_call_to_a_draining_shard_is_held_until_the_shard_is_gone() {
    let world = world(HostOptions::default());
    world.slot().set_admitting(false);
    let held = world.begin(call("shard#5/x", "count")).await;
    assert!(!held.is_finished());
    world.slot().drop_claim();
    let moved = CallError::NotOwner { shard: Some(shard()), fence: fence(7) };
    assert_eq!(held.await.unwrap(), Err(moved));
}

#[tokio::test(start_paused = true)]
async fn a_held_call_is_served_if_the_shard_stays() {
    let world = world(HostOptions::default());
    world.slot().set_admitting(false);
    let held = world.begin(call("shard#5/x", "count")).await;
    world.slot().set_admitting(true);
    assert_eq!(held.await.unwrap().unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn calls_are_held_until_their_timeout() {
    let world = world(HostOptions::default());
    world.slot().set_admitting(false);
    assert_eq!(world.call("shard#5/x", "count").await, Err(CallError::Late));
}

#[tokio::test(start_paused = true)]
async fn a_strict_cluster_holds_no_call() {
    let world = world(HostOptions { strict: true, ..HostOptions::default() });
    world.slot().set_admitting(false);
    let refused = CallError::NotOwner { shard: Some(shard()), fence: fence(7) };
    assert_eq!(world.call("shard#5/x", "count").await, Err(refused));
}

#[tokio::test(start_paused = true)]
async fn the_number_of_held_calls_is_limited() {
    let world = world(HostOptions::default());
    world.slot().set_admitting(false);
    let one = world.begin(call("shard#5/x", "count")).await;
    let other = world.begin(call("shard#5/y", "count")).await;
    let third = world.call("shard#5/z", "count").await;
    let limit = Limit { option: LimitOption::HeldCalls, value: 2 };
    assert_eq!(third, Err(CallError::QueueFull(limit)));
    world.slot().set_admitting(true);
    assert!(one.await.unwrap().is_ok() && other.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_is_admitted_to_a_draining_shard() {
    let world = world(HostOptions::default());
    let nested = Call { payload: "shard#5/y count".into(), ..call("shard#5/x", "nest") };
    let outer = world.begin(nested).await;
    world.slot().set_admitting(false);
    world.probe.gate.add_permits(1);
    assert_eq!(outer.await.unwrap().unwrap(), "1");
    assert_eq!(
        world.slot().handover(),
        Handover { admitting: false, calls: 0, objects: 2, in_doubt: false }
    );
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_is_admitted_to_a_draining_node() {
    let world = world(HostOptions::default());
    let nested = Call { payload: "a:1/y count".into(), ..call("a:1/x", "nest") };
    let outer = world.begin(nested).await;
    world.host.own_slot().set_admitting(false);
    let stranger = world.begin(call("a:1/z", "count")).await;
    world.probe.gate.add_permits(1);
    assert_eq!(outer.await.unwrap().unwrap(), "1");
    assert!(!stranger.is_finished(), "the call is not nested in a running one");
}

#[tokio::test(start_paused = true)]
async fn a_cyclic_call_fails_at_once() {
    let world = world(HostOptions::default());
    world.probe.gate.add_permits(2);
    let cycle = Call { payload: "shard#5/x count".into(), ..call("shard#5/x", "nest") };
    let refused = world.host.serve(cycle).await;
    let why = "a call of the object failed: the call would wait for itself";
    assert_eq!(refused, Err(CallError::Refused(why.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn transitions_and_calls_wait_for_each_other() {
    let world = world(HostOptions::default());
    let running = world.begin(call("shard#5/x", "block")).await;
    {
        let mut transition = std::pin::pin!(world.host.locks().acquire_write(shard()));
        assert!(futures_util::poll!(transition.as_mut()).is_pending());
    }
    world.probe.gate.add_permits(1);
    assert!(running.await.unwrap().is_ok());
    let transition = world.host.locks().acquire_write(shard()).await.unwrap();
    let early = world.begin(call("shard#5/x", "count")).await;
    assert!(!early.is_finished());
    // The call sees the change of the transition.
    world.slot().drop_claim();
    drop(transition);
    assert!(matches!(early.await.unwrap(), Err(CallError::NotOwner { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_transition_takes_a_queue_slot() {
    let world = world(HostOptions::default());
    let transition = world.host.locks().acquire_write(shard()).await.unwrap();
    let one = world.begin(call("shard#5/x", "count")).await;
    let other = world.begin(call("shard#5/y", "count")).await;
    let third = world.call("shard#5/z", "count").await;
    let limit = Limit { option: LimitOption::HeldCalls, value: 2 };
    assert_eq!(third, Err(CallError::QueueFull(limit)));
    drop(transition);
    assert!(one.await.unwrap().is_ok() && other.await.unwrap().is_ok());
}

/// A call to the draining shard that claims to be part of a call of another object.
fn claiming(id: &str) -> Call {
    let link = ObjectKey::new("Probe", ObjectId::parse(id).unwrap());
    Call { chain: Chain::new([link]), ..call("shard#5/y", "count") }
}

#[tokio::test(start_paused = true)]
async fn a_chain_of_calls_that_never_began_admits_nothing() {
    let world = world(HostOptions::default());
    let running = world.begin(call("shard#5/x", "block")).await;
    world.slot().set_admitting(false);
    world.host.own_slot().set_admitting(false);
    // Other shards and nodes count only for objects that are not here.
    world.caller.others_leave.store(true, Ordering::Relaxed);
    for invented in ["shard#5/z", "a:1/x"] {
        let invented = world.begin(claiming(invented)).await;
        assert!(!invented.is_finished(), "no call of the object runs");
        invented.abort();
        assert!(invented.await.is_err());
    }
    let nested = world.begin(claiming("shard#5/x")).await;
    assert_eq!(nested.await.unwrap().unwrap(), "1");
    world.probe.gate.add_permits(1);
    assert!(running.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_chain_counts_elsewhere_only_where_objects_leave() {
    let world = world(HostOptions::default());
    let running = world.begin(call("shard#5/x", "block")).await;
    world.slot().set_admitting(false);
    // Objects in a shard of another node, and of another node itself.
    let elsewhere = ["shard#9/x", "b:1/x"];
    let held = async || {
        for id in elsewhere {
            let held = world.begin(claiming(id)).await;
            assert!(!held.is_finished(), "{id}");
            held.abort();
            assert!(held.await.is_err());
        }
    };
    held().await;
    world.caller.others_leave.store(true, Ordering::Relaxed);
    for id in elsewhere {
        assert!(world.begin(claiming(id)).await.await.unwrap().is_ok(), "{id}");
    }
    world.probe.gate.add_permits(1);
    assert!(running.await.unwrap().is_ok());
    // Without a running call in the shard, no call can wait for it.
    held().await;
}
