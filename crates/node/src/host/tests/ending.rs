use super::*;

#[tokio::test(start_paused = true)]
async fn nothing_is_admitted_once_the_session_may_have_ended() {
    let world = world(HostOptions::default());
    world.serves.store(false, Ordering::Relaxed);
    assert_eq!(world.call("shard#5/x", "count").await, Err(CallError::NotServing));
    assert_eq!(world.call("a:1/status", "count").await, Err(CallError::NotServing));
    assert!(world.log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_acknowledged_once_the_session_may_have_ended() {
    let world = world(HostOptions::default());
    let running = world.begin(call("shard#5/x", "block")).await;
    world.serves.store(false, Ordering::Relaxed);
    world.probe.gate.add_permits(1);
    assert_eq!(running.await.unwrap(), Err(CallError::Unknown(UnknownWhy::NotServing)));
}

#[tokio::test(start_paused = true)]
async fn a_call_in_a_shard_lost_meanwhile_is_not_acknowledged() {
    let world = world(HostOptions::default());
    let running = world.begin(call("shard#5/x", "block")).await;
    world.slot().drop_claim();
    world.probe.gate.add_permits(1);
    assert_eq!(running.await.unwrap(), Err(CallError::Unknown(UnknownWhy::NotServing)));
}

#[tokio::test(start_paused = true)]
async fn running_calls_are_cancelled_and_waiting_ones_not_executed() {
    let world = world(HostOptions::default());
    let running = world.begin(call("shard#5/x", "block")).await;
    let waiting = world.begin(call("shard#5/x", "count")).await;
    world.host.serving().cancel_calls();
    assert_eq!(running.await.unwrap(), Err(CallError::Unknown(UnknownWhy::NotServing)));
    assert_eq!(waiting.await.unwrap(), Err(CallError::NotServing));
    // If the session was alive all along, the node serves again, with a new object.
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_leaves_nothing_behind() {
    let world = world(HostOptions::default());
    world.call("shard#5/x", "count").await.unwrap();
    world.call("a:1/status", "count").await.unwrap();
    let running = world.begin(call("shard#5/y", "block")).await;
    world.host.end().await;
    assert!(running.await.unwrap().is_err());
    assert!(matches!(world.call("shard#5/x", "count").await, Err(CallError::NotOwner { .. })));
    let deactivated =
        world.log().into_iter().filter(|line| line.starts_with("is inactive")).count();
    assert_eq!(deactivated, 2, "the object of the cancelled call is not deactivated");
    assert_eq!(
        world.slot().handover(),
        Handover { admitting: false, calls: 0, objects: 0, in_doubt: false }
    );
}

/// A host with this many objects in its shard, which are deactivated in some way.
async fn crowded(objects: u64, leaving: Behaviour) -> World {
    let world = world(HostOptions::default());
    for number in 0..objects {
        world.call(&format!("shard#5/{number}"), "count").await.unwrap();
    }
    *world.probe.leaving.lock().unwrap() = leaving;
    world
}

#[tokio::test(start_paused = true)]
async fn hanging_deactivations_hold_their_shard_for_a_limited_time() {
    let world = crowded(1_000, Behaviour::Hangs).await;
    let began = tokio::time::Instant::now();
    let dropped = world.host.evict(world.slot(), Deactivation::HandedOver).await;
    let took = began.elapsed();
    let limit = HostOptions::default().deactivation_max;
    assert!(took >= limit && took < limit + SECOND, "{took:?}");
    assert_eq!(dropped, 1_000);
    assert_eq!(world.host.objects(shard()), Ok(0));
    *world.probe.leaving.lock().unwrap() = Behaviour::Normal;
    assert_eq!(world.call("shard#5/7", "count").await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn objects_whose_deactivation_panics_are_dropped() {
    let world = crowded(100, Behaviour::Panics).await;
    let began = tokio::time::Instant::now();
    let dropped = world.host.evict(world.slot(), Deactivation::HandedOver).await;
    assert!(began.elapsed() < SECOND);
    assert_eq!((dropped, world.host.objects(shard())), (100, Ok(0)));
}

fn deactivated(world: &World) -> usize {
    world.log().iter().filter(|line| line.starts_with("is inactive")).count()
}

#[tokio::test(start_paused = true)]
async fn each_deactivation_has_its_full_timeout() {
    // Together they take far longer than the timeout of one.
    let world = crowded(8_000, Behaviour::Slow(50)).await;
    let began = tokio::time::Instant::now();
    let dropped = world.host.evict(world.slot(), Deactivation::HandedOver).await;
    assert!(began.elapsed() > HostOptions::default().deactivation_max);
    assert_eq!((dropped, deactivated(&world)), (0, 8_000));
}

#[tokio::test(start_paused = true)]
async fn slow_deactivations_hold_their_shard_for_a_limited_time() {
    let world = crowded(2_000, Behaviour::Slow(4_000)).await;
    let began = tokio::time::Instant::now();
    let dropped = world.host.evict(world.slot(), Deactivation::HandedOver).await;
    let (took, latest) = (began.elapsed(), 12 * HostOptions::default().deactivation_max);
    assert!(took <= latest + SECOND, "{took:?}");
    // Fifteen times sixty-four were done by then.
    assert_eq!((dropped, deactivated(&world)), (2_000 - 960, 960));
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_before_its_objects_are_deactivated() {
    let world = crowded(3, Behaviour::Hangs).await;
    let running = world.begin(call("shard#5/busy", "block")).await;
    let leaving = world.host.end();
    assert_eq!(running.await.unwrap(), Err(CallError::Unknown(UnknownWhy::NotServing)));
    assert_eq!(
        world.slot().handover(),
        Handover { admitting: false, calls: 0, objects: 0, in_doubt: false }
    );
    leaving.await;
}
