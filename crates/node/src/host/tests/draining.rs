use super::*;

#[tokio::test(start_paused = true)]
async fn a_call_to_a_shard_that_drains_is_held_until_the_shard_is_gone() {
    let world = world(HostOptions::default());
    world.slot().set_admitting(false);
    let held = world.begin(call("shard#5/x", "count")).await;
    assert!(!held.is_finished());
    world.slot().give_up();
    let moved = CallError::NotOwner { shard: Some(shard()), fence: fence(7) };
    assert_eq!(held.await.unwrap(), Err(moved));
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_shard_that_stays_after_all_is_served() {
    let world = world(HostOptions::default());
    world.slot().set_admitting(false);
    let held = world.begin(call("shard#5/x", "count")).await;
    world.slot().set_admitting(true);
    assert_eq!(held.await.unwrap().unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn calls_are_held_for_as_long_as_they_have_time() {
    let world = world(HostOptions::default());
    world.slot().set_admitting(false);
    assert_eq!(world.call("shard#5/x", "count").await, Err(CallError::Late));
}

#[tokio::test(start_paused = true)]
async fn where_the_cluster_is_strict_no_call_is_held() {
    let world = world(HostOptions { strict: true, ..HostOptions::default() });
    world.slot().set_admitting(false);
    let refused = CallError::NotOwner { shard: Some(shard()), fence: fence(7) };
    assert_eq!(world.call("shard#5/x", "count").await, Err(refused));
}

#[tokio::test(start_paused = true)]
async fn so_many_calls_are_held_and_no_more() {
    let world = world(HostOptions::default());
    world.slot().set_admitting(false);
    let one = world.begin(call("shard#5/x", "count")).await;
    let other = world.begin(call("shard#5/y", "count")).await;
    let third = world.call("shard#5/z", "count").await;
    assert_eq!(third, Err(CallError::QueueFull { limit: 2 }));
    world.slot().set_admitting(true);
    assert!(one.await.unwrap().is_ok() && other.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_part_of_a_running_one_is_let_into_a_draining_shard() {
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
async fn so_is_one_between_objects_of_the_node_itself() {
    let world = world(HostOptions::default());
    let nested = Call { payload: "a:1/y count".into(), ..call("a:1/x", "nest") };
    let outer = world.begin(nested).await;
    world.host.own_slot().set_admitting(false);
    let stranger = world.begin(call("a:1/z", "count")).await;
    world.probe.gate.add_permits(1);
    assert_eq!(outer.await.unwrap().unwrap(), "1");
    assert!(!stranger.is_finished(), "it is part of nothing that runs");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_back_to_its_own_object_is_an_error_at_once() {
    let world = world(HostOptions::default());
    world.probe.gate.add_permits(2);
    let cycle = Call { payload: "shard#5/x count".into(), ..call("shard#5/x", "nest") };
    let refused = world.host.serve(cycle).await;
    let why = "a call of the object failed: the object waits for this very call";
    assert_eq!(refused, Err(CallError::Refused(why.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_transition_waits_for_running_calls_and_calls_for_the_transition() {
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
    // What the transition changed is what the call finds.
    world.slot().give_up();
    drop(transition);
    assert!(matches!(early.await.unwrap(), Err(CallError::NotOwner { .. })));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_transition_waits_in_the_queue() {
    let world = world(HostOptions::default());
    let transition = world.host.locks().acquire_write(shard()).await.unwrap();
    let one = world.begin(call("shard#5/x", "count")).await;
    let other = world.begin(call("shard#5/y", "count")).await;
    let third = world.call("shard#5/z", "count").await;
    assert_eq!(third, Err(CallError::QueueFull { limit: 2 }));
    drop(transition);
    assert!(one.await.unwrap().is_ok() && other.await.unwrap().is_ok());
}
