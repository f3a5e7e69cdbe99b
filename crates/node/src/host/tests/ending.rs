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
async fn an_effect_in_a_shard_that_was_lost_meanwhile_is_not_acknowledged() {
    let world = world(HostOptions::default());
    let running = world.begin(call("shard#5/x", "block")).await;
    world.slot().give_up();
    world.probe.gate.add_permits(1);
    assert_eq!(running.await.unwrap(), Err(CallError::Unknown(UnknownWhy::NotServing)));
}

#[tokio::test(start_paused = true)]
async fn what_runs_is_broken_off_and_what_waits_was_not_executed() {
    let world = world(HostOptions::default());
    let running = world.begin(call("shard#5/x", "block")).await;
    let waiting = world.begin(call("shard#5/x", "count")).await;
    world.host.serving().break_off();
    assert_eq!(running.await.unwrap(), Err(CallError::Unknown(UnknownWhy::NotServing)));
    assert_eq!(waiting.await.unwrap(), Err(CallError::NotServing));
    // If the session had lived all along, the node serves on; the broken object is another one.
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_life_leaves_nothing_behind() {
    let world = world(HostOptions::default());
    world.call("shard#5/x", "count").await.unwrap();
    world.call("a:1/status", "count").await.unwrap();
    let running = world.begin(call("shard#5/y", "block")).await;
    world.host.end().await;
    assert!(running.await.unwrap().is_err());
    assert!(matches!(world.call("shard#5/x", "count").await, Err(CallError::NotOwner { .. })));
    let sleeps = world.log().into_iter().filter(|line| line.starts_with("sleeps")).count();
    assert_eq!(sleeps, 2, "the object that was broken off does not take leave");
    assert_eq!(
        world.slot().handover(),
        Handover { admitting: false, calls: 0, objects: 0, in_doubt: false }
    );
}

/// A host with so many objects in its shard, which take leave in some way.
async fn crowded(objects: u64, leaving: Mood) -> World {
    let world = world(HostOptions::default());
    for number in 0..objects {
        world.call(&format!("shard#5/{number}"), "count").await.unwrap();
    }
    *world.probe.leaving.lock().unwrap() = leaving;
    world
}

#[tokio::test(start_paused = true)]
async fn objects_that_do_not_go_hold_their_shard_only_so_long_however_many_they_are() {
    let world = crowded(1_000, Mood::Hangs).await;
    let began = tokio::time::Instant::now();
    let dropped = world.host.evict(world.slot(), Deactivation::HandedOver).await;
    let took = began.elapsed();
    let limit = HostOptions::default().deactivation_max;
    assert!(took >= limit && took < limit + SECOND, "{took:?}");
    assert_eq!(dropped, 1_000);
    assert_eq!(world.host.objects(shard()), Ok(0));
    *world.probe.leaving.lock().unwrap() = Mood::Well;
    assert_eq!(world.call("shard#5/7", "count").await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn objects_whose_code_panics_when_they_go_are_gone_all_the_same() {
    let world = crowded(100, Mood::Panics).await;
    let began = tokio::time::Instant::now();
    let dropped = world.host.evict(world.slot(), Deactivation::HandedOver).await;
    assert!(began.elapsed() < SECOND);
    assert_eq!((dropped, world.host.objects(shard())), (100, Ok(0)));
}

fn asleep(world: &World) -> usize {
    world.log().iter().filter(|line| line.starts_with("sleeps")).count()
}

#[tokio::test(start_paused = true)]
async fn objects_that_go_one_after_the_other_all_have_the_time_that_each_may_take() {
    // Together they take far longer than one of them may.
    let world = crowded(8_000, Mood::Slow(50)).await;
    let began = tokio::time::Instant::now();
    let dropped = world.host.evict(world.slot(), Deactivation::HandedOver).await;
    assert!(began.elapsed() > HostOptions::default().deactivation_max);
    assert_eq!((dropped, asleep(&world)), (0, 8_000));
}

#[tokio::test(start_paused = true)]
async fn objects_that_go_slowly_hold_their_shard_only_so_long_all_the_same() {
    let world = crowded(2_000, Mood::Slow(4_000)).await;
    let began = tokio::time::Instant::now();
    let dropped = world.host.evict(world.slot(), Deactivation::HandedOver).await;
    let (took, latest) = (began.elapsed(), 12 * HostOptions::default().deactivation_max);
    assert!(took <= latest + SECOND, "{took:?}");
    // Fifteen times sixty-four had gone by then.
    assert_eq!((dropped, asleep(&world)), (2_000 - 960, 960));
}

#[tokio::test(start_paused = true)]
async fn a_life_has_ended_before_its_objects_have_taken_leave() {
    let world = crowded(3, Mood::Hangs).await;
    let running = world.begin(call("shard#5/busy", "block")).await;
    let leaving = world.host.end();
    assert_eq!(running.await.unwrap(), Err(CallError::Unknown(UnknownWhy::NotServing)));
    assert_eq!(
        world.slot().handover(),
        Handover { admitting: false, calls: 0, objects: 0, in_doubt: false }
    );
    leaving.await;
}
