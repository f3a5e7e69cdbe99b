use super::*;

const IDLE: Duration = Duration::from_secs(60);

fn idle() -> HostOptions {
    HostOptions { idle_max: Some(IDLE), ..HostOptions::default() }
}

fn at_most(objects_max: u64) -> HostOptions {
    HostOptions { objects_max, idle_max: None, ..HostOptions::default() }
}

impl World {
    /// Evicts idle objects in the background.
    fn evict_idle(&self) {
        let host = Arc::clone(&self.host);
        drop(tokio::spawn(async move { host.evict_idle().await }));
    }

    fn deactivated(&self) -> usize {
        self.log().iter().filter(|line| line.starts_with("is inactive")).count()
    }

    /// The objects of shard 5 in memory, and those that count toward the ceiling.
    fn objects(&self) -> (u64, u64) {
        (self.host.objects(shard()).unwrap(), self.host.residents.count())
    }

    fn set_leaving(&self, leaving: Behaviour) {
        *self.probe.leaving.lock().unwrap() = leaving;
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_object_is_deactivated_and_its_next_call_activates_it() {
    let world = world(idle());
    world.evict_idle();
    world.call("shard#5/x", "count").await.unwrap();
    world.call("a:1/status", "count").await.unwrap();
    tokio::time::sleep(IDLE - SECOND).await;
    // A call makes it the most recently used.
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "2");
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(world.log().last().unwrap(), "is inactive after 1, Evicted");
    assert_eq!(world.objects(), (1, 1));
    tokio::time::sleep(IDLE).await;
    assert_eq!(world.log().last().unwrap(), "is inactive after 2, Evicted");
    assert_eq!(world.objects(), (0, 0));
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn an_object_with_a_running_or_waiting_call_is_not_evicted() {
    let world = world(HostOptions { objects_max: 1, ..idle() });
    world.evict_idle();
    let long = |method| Call { timeout: 10 * IDLE, ..call("shard#5/x", method) };
    let (running, waiting) = (world.begin(long("block")).await, world.begin(long("count")).await);
    tokio::time::sleep(2 * IDLE).await;
    world.call("shard#5/y", "count").await.unwrap();
    assert_eq!((world.objects(), world.deactivated()), ((2, 2), 0));
    tokio::time::sleep(2 * IDLE).await;
    assert_eq!(world.deactivated(), 1, "only the other object was idle");
    assert_eq!(world.log().last().unwrap(), "is inactive after 1, Evicted");
    world.probe.gate.add_permits(1);
    assert!(running.await.unwrap().is_ok());
    assert_eq!(waiting.await.unwrap().unwrap(), "2");
}

#[tokio::test(start_paused = true)]
async fn the_least_recently_used_object_is_evicted_first() {
    let world = world(at_most(3));
    for id in ["a", "b", "c", "a", "d", "e"] {
        world.call(&format!("shard#5/{id}"), "count").await.unwrap();
    }
    assert_eq!((world.objects(), world.deactivated()), ((3, 3), 2));
    // Those two were evicted, and the others are as they were.
    for (id, calls) in [("a", "3"), ("d", "2"), ("e", "2"), ("b", "1"), ("c", "1")] {
        let counted = world.call(&format!("shard#5/{id}"), "count").await.unwrap();
        assert_eq!(counted, calls, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_that_every_shard_has_are_not_evicted() {
    let janitor = AutoLoad { object_type: "Probe".into(), name: "janitor".into() };
    let world = world_with(HostOptions { objects_max: 1, ..idle() }, &[janitor]);
    world.evict_idle();
    let key = call("shard#5/janitor", "").target;
    world.host.load(key, SECOND).await.unwrap();
    world.call("shard#5/x", "count").await.unwrap();
    world.call("shard#5/y", "count").await.unwrap();
    tokio::time::sleep(3 * IDLE).await;
    assert_eq!((world.objects(), world.deactivated()), ((1, 0), 2));
    assert!(world.slot().has(&call("shard#5/janitor", "").target));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_eviction_and_activates_again() {
    let world = world(HostOptions { deactivation_max: 10 * SECOND, ..idle() });
    world.evict_idle();
    world.set_leaving(Behaviour::Slow(5_000));
    world.call("shard#5/x", "count").await.unwrap();
    tokio::time::sleep(IDLE + SECOND).await;
    let call = Call { timeout: 60 * SECOND, ..call("shard#5/x", "count") };
    let racing = world.begin(call).await;
    tokio::time::sleep(2 * SECOND).await;
    assert!(!racing.is_finished() && world.log().len() == 1, "{:?}", world.log());
    assert_eq!(racing.await.unwrap().unwrap(), "1");
    let expected = [
        "shard#5/x is active with 7",
        "is inactive after 1, Evicted",
        "shard#5/x is active with 7",
    ];
    assert_eq!(world.log(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_handover_waits_for_an_eviction_and_does_not_repeat_it() {
    let world = world(idle());
    world.evict_idle();
    world.set_leaving(Behaviour::Slow(3_000));
    world.call("shard#5/x", "count").await.unwrap();
    tokio::time::sleep(IDLE + SECOND).await;
    world.slot().set_admitting(false);
    assert_eq!(world.slot().handover().calls, 1, "an eviction counts as a call");
    assert!(world.host.locks().try_acquire_read(shard()).unwrap().is_some());
    world.slot().idle().await;
    let dropped = world.host.evict(world.slot(), Deactivation::HandedOver).await;
    assert_eq!((dropped, world.log().len()), (0, 2));
    assert_eq!(world.log()[1], "is inactive after 1, Evicted");
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_draining_shard_are_left_to_its_handover() {
    let world = world(HostOptions { objects_max: 1, ..idle() });
    world.evict_idle();
    world.call("shard#5/x", "count").await.unwrap();
    world.slot().set_admitting(false);
    world.call("a:1/status", "count").await.unwrap();
    tokio::time::sleep(2 * IDLE).await;
    assert_eq!(world.log().last().unwrap(), "is inactive after 1, Evicted");
    assert_eq!(world.objects(), (1, 1));
    world.host.evict(world.slot(), Deactivation::HandedOver).await;
    assert_eq!((world.deactivated(), world.objects()), (2, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_eviction_is_limited_and_reported() {
    let world = world(at_most(1));
    world.call("shard#5/x", "count").await.unwrap();
    world.set_leaving(Behaviour::Hangs);
    let long = Call { timeout: 60 * SECOND, ..call("shard#5/y", "count") };
    let began = tokio::time::Instant::now();
    assert_eq!(world.host.serve(long).await.unwrap(), "1");
    assert_eq!(began.elapsed(), HostOptions::default().deactivation_max);
    assert_eq!(world.objects(), (1, 1));
    let notices = world.notice_log.notices().borrow().clone();
    let why: Vec<_> = notices.after(0).map(|notice| notice.why.as_str()).collect();
    assert_eq!(why, ["an evicted object was dropped before it was deactivated"]);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_survives_the_call_that_needed_its_room() {
    let world = world(at_most(1));
    world.call("shard#5/x", "count").await.unwrap();
    world.set_leaving(Behaviour::Slow(4_000));
    let waiting = world.begin(call("shard#5/y", "count")).await;
    tokio::time::sleep(SECOND / 2).await;
    waiting.abort();
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(world.log()[1], "is inactive after 1, Evicted");
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_ends_evictions() {
    let world = world(idle());
    world.evict_idle();
    world.set_leaving(Behaviour::Hangs);
    world.call("shard#5/x", "count").await.unwrap();
    tokio::time::sleep(IDLE + SECOND).await;
    let began = tokio::time::Instant::now();
    world.host.end().await;
    assert!(began.elapsed() < SECOND);
    assert_eq!(world.objects(), (0, 0));
    assert_eq!(world.notice_log.notices().borrow().after(0).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn failed_calls_leave_nothing_in_memory() {
    let world = world(HostOptions { overrun_max: SECOND, ..HostOptions::default() });
    for behaviour in [Behaviour::Refuses, Behaviour::Panics, Behaviour::Hangs] {
        *world.probe.activation.lock().unwrap() = behaviour;
        for number in 0..10 {
            assert!(world.call(&format!("shard#5/{number}"), "count").await.is_err());
        }
    }
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(world.objects(), (0, 0));
    *world.probe.activation.lock().unwrap() = Behaviour::Normal;
    let running = world.begin(call("shard#5/x", "block")).await;
    let waiting = world.begin(call("shard#5/x", "count")).await;
    assert_eq!(waiting.await.unwrap(), Err(CallError::Late));
    assert_eq!(running.await.unwrap(), Err(CallError::Unknown(UnknownWhy::Late)));
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(world.objects(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_exceed_the_ceiling_by_at_most_their_number() {
    let world = world(at_most(100));
    for round in 0..50 {
        let calls = (0..20).map(|n| format!("shard#5/{round}-{n}"));
        let calls: Vec<_> = calls.collect();
        let calls = calls.iter().map(|id| world.call(id, "count"));
        for answer in futures_util::future::join_all(calls).await {
            answer.unwrap();
        }
        assert!(world.objects().0 <= 120, "{:?}", world.objects());
    }
    assert_eq!((world.objects(), world.deactivated()), ((100, 100), 900));
}

/// More objects than fit into any bounded look at the front of the list.
const MANY: usize = 1_500;

#[tokio::test(start_paused = true)]
async fn objects_of_draining_shards_do_not_protect_idle_ones() {
    let world = world(at_most(MANY as u64 + 1));
    for number in 0..MANY {
        world.call(&format!("shard#5/{number}"), "count").await.unwrap();
    }
    world.slot().set_admitting(false);
    world.call("a:1/idle", "count").await.unwrap();
    assert_eq!(world.deactivated(), 0);
    world.call("a:1/new", "count").await.unwrap();
    assert_eq!(world.deactivated(), 1);
    assert_eq!(world.call("a:1/new", "count").await.unwrap(), "2", "the other one was evicted");
}

#[tokio::test(start_paused = true)]
async fn objects_that_calls_wait_for_do_not_protect_idle_ones() {
    let world = world(at_most(MANY as u64 + 1));
    let ids: Vec<_> = (0..MANY).map(|number| format!("shard#5/{number}")).collect();
    for id in &ids {
        world.call(id, "count").await.unwrap();
    }
    world.call("shard#5/idle", "count").await.unwrap();
    let cells = ids.iter().map(|id| world.slot().cell(&call(id, "").target));
    let cells: Vec<_> = cells.collect();
    // Each is about to be used by a call that has not started.
    let _waiting: Vec<_> = cells.iter().map(|cell| cell.line_up()).collect();
    world.call("shard#5/new", "count").await.unwrap();
    assert_eq!(world.deactivated(), 1);
    assert!(!world.slot().has(&call("shard#5/idle", "").target));
}
