use shardwright_api::limits::MAX_FENCE_LEAD;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_object_lives_from_its_first_call_to_the_end_of_its_shard() {
    let world = world(HostOptions::default());
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "1");
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "2");
    assert_eq!(world.host.objects(shard()), Ok(1));
    world.host.evict(world.slot(), Deactivation::HandedOver).await;
    world.slot().drop_claim();
    let refused = CallError::NotOwner { shard: Some(shard()), fence: fence(7) };
    assert_eq!(world.call("shard#5/x", "count").await, Err(refused));
    world.slot().take(fence(9));
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "1");
    let expected = [
        "shard#5/x is active with 7",
        "is inactive after 2, HandedOver",
        "shard#5/x is active with 9",
    ];
    assert_eq!(world.log(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_object_answers_one_call_at_a_time() {
    let world = world(HostOptions::default());
    let first = world.begin(call("shard#5/x", "block")).await;
    let second = world.begin(call("shard#5/x", "count")).await;
    assert_eq!(world.call("shard#5/y", "count").await.unwrap(), "1");
    assert!(!second.is_finished());
    world.probe.gate.add_permits(1);
    assert!(first.await.unwrap().is_ok());
    assert_eq!(second.await.unwrap().unwrap(), "2");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_type_is_refused_and_has_no_objects() {
    let world = world(HostOptions::default());
    let unknown = Call {
        target: ObjectKey::new("Nothing", ObjectId::parse("shard#5/x").unwrap()),
        ..call("shard#5/x", "count")
    };
    assert_eq!(world.host.serve(unknown).await, Err(CallError::UnknownType));
    assert_eq!(world.host.objects(shard()), Ok(0));
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_its_call_and_drops_the_object() {
    let world = world(HostOptions::default());
    world.call("shard#5/x", "count").await.unwrap();
    assert_eq!(world.call("shard#5/x", "panic").await, Err(CallError::Panicked));
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "1");
    let idle = Handover { admitting: true, calls: 0, objects: 1, in_doubt: false };
    assert_eq!(world.slot().handover(), idle);
}

#[tokio::test(start_paused = true)]
async fn a_refused_activation_leaves_no_object() {
    let world = world(HostOptions::default());
    *world.probe.activation.lock().unwrap() = Behaviour::Refuses;
    let refused = CallError::Activation("not today".to_owned());
    assert_eq!(world.call("shard#5/x", "count").await, Err(refused));
    assert_eq!(world.host.objects(shard()), Ok(0));
    *world.probe.activation.lock().unwrap() = Behaviour::Normal;
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_activation_leaves_no_object() {
    let world = world(HostOptions::default());
    *world.probe.activation.lock().unwrap() = Behaviour::Panics;
    let panicked = CallError::Activation("its code panicked".to_owned());
    assert_eq!(world.call("shard#5/x", "count").await, Err(panicked));
    assert_eq!(world.host.objects(shard()), Ok(0));
    *world.probe.activation.lock().unwrap() = Behaviour::Normal;
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn a_hanging_activation_times_out_without_executing_the_call() {
    let world = world(HostOptions { overrun_max: SECOND, ..HostOptions::default() });
    *world.probe.activation.lock().unwrap() = Behaviour::Hangs;
    assert_eq!(world.call("shard#5/x", "count").await, Err(CallError::Late));
    assert_eq!(world.slot().handover().calls, 1);
    *world.probe.activation.lock().unwrap() = Behaviour::Normal;
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(world.slot().handover().calls, 0);
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn errors_of_an_object_reach_its_caller() {
    let world = world(HostOptions::default());
    let no = world.call("shard#5/x", "refuse").await;
    assert_eq!(no, Err(CallError::Refused("no".to_owned())));
    // A store that has seen a later fence applied nothing, so another node may be tried.
    let stale = world.call("shard#5/x", "stale").await;
    assert_eq!(stale, Err(CallError::NotOwner { shard: Some(shard()), fence: fence(7) }));
    // The object, whose state is out of date, is dropped.
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_the_node_needs_no_shard_lock() {
    let world = world(HostOptions::default());
    let all = (0..64).map(ShardId::from_raw);
    let _transition = world.host.locks().acquire_write_multiple(all).await.unwrap();
    assert_eq!(world.call("a:1/status", "count").await.unwrap(), "1");
    assert_eq!(world.log(), ["a:1/status is active with 0"]);
    let refused = CallError::NotOwner { shard: None, fence: None };
    assert_eq!(world.call("b:1/status", "count").await, Err(refused));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_started_differs_from_an_unknown_one() {
    let world = world(HostOptions::default());
    let first = world.begin(call("shard#5/x", "block")).await;
    let second = world.begin(call("shard#5/x", "count")).await;
    assert_eq!(second.await.unwrap(), Err(CallError::Late));
    assert_eq!(first.await.unwrap(), Err(CallError::Unknown(UnknownWhy::Late)));
    // The first continues, and the object is intact when it has ended.
    world.probe.gate.add_permits(1);
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "2");
}

#[tokio::test(start_paused = true)]
async fn a_call_continues_without_its_caller() {
    let world = world(HostOptions::default());
    let first = world.begin(call("shard#5/x", "block")).await;
    first.abort();
    assert!(first.await.is_err());
    assert_eq!(world.slot().handover().calls, 1);
    world.probe.gate.add_permits(1);
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "2");
}

#[tokio::test(start_paused = true)]
async fn a_call_far_beyond_its_timeout_is_cancelled() {
    let world = world(HostOptions { overrun_max: SECOND, ..HostOptions::default() });
    let stuck = world.begin(call("shard#5/x", "block")).await;
    assert_eq!(stuck.await.unwrap(), Err(CallError::Unknown(UnknownWhy::Late)));
    assert_eq!(world.slot().handover().calls, 1);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(world.slot().handover().calls, 0);
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn the_queue_of_an_object_is_limited_and_separate() {
    let options = HostOptions { calls_per_object_max: 3, ..HostOptions::default() };
    let world = world(options);
    let first = world.begin(call("shard#5/x", "block")).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(world.begin(call("shard#5/x", "count")).await);
    }
    let fifth = world.call("shard#5/x", "count").await;
    let limit = Limit { option: LimitOption::CallsPerObject, value: 3 };
    assert_eq!(fifth, Err(CallError::QueueFull(limit)));
    // Both slots for held calls are still free.
    world.slot().set_admitting(false);
    let held = [
        world.begin(call("shard#5/y", "count")).await,
        world.begin(call("shard#5/z", "count")).await,
    ];
    assert!(held.iter().all(|call| !call.is_finished()), "both are held");
    world.slot().set_admitting(true);
    for call in held {
        assert_eq!(call.await.unwrap().unwrap(), "1");
    }
    world.probe.gate.add_permits(1);
    assert!(first.await.unwrap().is_ok());
    let mut answers = Vec::new();
    for call in waiting {
        answers.push(call.await.unwrap().unwrap());
    }
    assert_eq!(answers, ["2", "3", "4"]);
}

#[tokio::test(start_paused = true)]
async fn a_long_refusal_is_truncated() {
    let world = world(HostOptions::default());
    let method = "n".repeat(200);
    let refused = world.call("shard#5/x", &method).await;
    assert_eq!(refused, Err(CallError::Refused(method)));
    let long = Call { payload: vec![b'x'; 100_000].into(), ..call("shard#5/x", "refuse_with") };
    let Err(CallError::Refused(why)) = world.host.serve(long).await else {
        panic!("the call was not refused")
    };
    assert!(why.len() <= 1_024 && why.starts_with("xxx"), "{}", why.len());
}

#[tokio::test(start_paused = true)]
async fn an_object_is_loaded_without_a_call() {
    let world = world(HostOptions::default());
    let key = call("shard#5/x", "").target;
    world.host.load(key.clone(), SECOND).await.unwrap();
    world.host.load(key, SECOND).await.unwrap();
    assert_eq!(world.log(), ["shard#5/x is active with 7"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_catches_up_with_its_caller_before_it_refuses() {
    for strict in [false, true] {
        let world = world(HostOptions { strict, ..HostOptions::default() });
        let with_fence =
            |raw| Call { fence: fence(raw), timeout: 5 * SECOND, ..call("shard#5/x", "count") };
        let early = world.begin(with_fence(8)).await;
        assert!(!early.is_finished(), "{:?}", early.await);
        world.slot().take(fence(8));
        assert_eq!(early.await.unwrap().unwrap(), "1");
        // It may learn that another node holds the shard.
        let early = world.begin(with_fence(9)).await;
        world.slot().drop_claim();
        let gone = CallError::NotOwner { shard: Some(shard()), fence: fence(8) };
        assert_eq!(early.await.unwrap(), Err(gone.clone()));
        // If it learns of no later claim, another node may have the shard.
        world.slot().take(fence(8));
        let began = world.host.env.monotonic();
        assert_eq!(world.host.serve(with_fence(9)).await, Err(gone));
        assert_eq!(world.host.env.monotonic() - began, SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn ownership_is_checked_again_under_the_shard_lock() {
    let world = world(HostOptions::default());
    let lock = world.host.locks().acquire_write(shard()).await.unwrap();
    let waiting = world.begin(call("shard#5/x", "count")).await;
    world.slot().drop_claim();
    drop(lock);
    let refused = CallError::NotOwner { shard: Some(shard()), fence: fence(7) };
    assert_eq!(waiting.await.unwrap(), Err(refused));
    assert!(world.log().is_empty(), "no object is activated in a lost shard");
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_named_shard_takes_the_shard_lock() {
    let world = world(HostOptions::default());
    let lock = world.host.locks().acquire_write(shard()).await.unwrap();
    let waiting = world.begin(call("shard#5/x", "count")).await;
    assert!(!waiting.is_finished() && world.log().is_empty());
    drop(lock);
    assert_eq!(waiting.await.unwrap().unwrap(), "1");
    // A running call holds the lock until it ends.
    let running = world.begin(call("shard#5/x", "block")).await;
    let host = Arc::clone(&world.host);
    let claim = tokio::spawn(async move { host.locks().acquire_write(shard()).await.is_ok() });
    yield_now().await;
    assert!(!claim.is_finished());
    world.probe.gate.add_permits(1);
    assert!(running.await.unwrap().is_ok() && claim.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_hashed_id_takes_the_lock_of_its_shard() {
    let world = world(HostOptions::default());
    let mut ids = (0..10_000).map(|number| format!("user-{number}"));
    let is_of_shard = |id: &String| {
        let id = ObjectId::parse(id).unwrap();
        world.host.sharding.shard_of(id.borrowed()).unwrap() == Some(shard())
    };
    let id = ids.find(is_of_shard).unwrap();
    let lock = world.host.locks().acquire_write(shard()).await.unwrap();
    let waiting = world.begin(call(&id, "count")).await;
    assert!(!waiting.is_finished() && world.log().is_empty());
    drop(lock);
    assert_eq!(waiting.await.unwrap().unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn a_fence_far_ahead_is_refused_without_waiting() {
    let world = world(HostOptions::default());
    let began = world.host.env.monotonic();
    for raw in [7 + MAX_FENCE_LEAD, u64::MAX - 1] {
        let ahead = Call { fence: fence(raw), ..call("shard#5/x", "count") };
        let refused = CallError::NotOwner { shard: Some(shard()), fence: fence(7) };
        assert_eq!(world.host.serve(ahead).await, Err(refused));
    }
    assert_eq!(world.host.env.monotonic(), began);
}
