use super::*;

fn delete(id: &str) -> Call {
    Call::delete(call(id, "").target, SECOND)
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_deactivated_and_gone_from_memory() {
    let world = world(HostOptions::default());
    world.call("shard#5/x", "count").await.unwrap();
    assert_eq!(world.host.serve(delete("shard#5/x")).await, Ok(Bytes::new()));
    assert_eq!(world.log(), ["shard#5/x is active with 7", "is inactive after 1, Deleted"]);
    assert_eq!((world.host.objects(shard()), world.host.residents.count()), (Ok(0), 0));
    assert_eq!(world.call("shard#5/x", "count").await.unwrap(), "1");
}

/// Otherwise the effect of a deletion would depend on an eviction before it.
#[tokio::test(start_paused = true)]
async fn an_inactive_object_learns_of_its_deletion() {
    let world = world(HostOptions::default());
    assert_eq!(world.host.serve(delete("shard#5/x")).await, Ok(Bytes::new()));
    assert_eq!(world.log(), ["shard#5/x is active with 7", "is inactive after 0, Deleted"]);
    *world.probe.activation.lock().unwrap() = Behaviour::Refuses;
    let refused = world.host.serve(delete("shard#5/x")).await;
    assert!(matches!(refused, Err(CallError::Activation(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_takes_its_turn_among_calls() {
    let world = world(HostOptions::default());
    let before = world.begin(call("shard#5/x", "block")).await;
    let deleted = world.begin(delete("shard#5/x")).await;
    let after = world.begin(call("shard#5/x", "count")).await;
    assert!(!deleted.is_finished() && !after.is_finished());
    world.probe.gate.add_permits(1);
    assert!(before.await.unwrap().is_ok() && deleted.await.unwrap().is_ok());
    assert_eq!(after.await.unwrap().unwrap(), "1");
    let expected = [
        "shard#5/x is active with 7",
        "is inactive after 1, Deleted",
        "shard#5/x is active with 7",
    ];
    assert_eq!(world.log(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_unknown_and_drops_the_object() {
    let world = world(HostOptions { overrun_max: SECOND, ..HostOptions::default() });
    for (leaving, error) in [
        (Behaviour::Panics, CallError::Panicked),
        (Behaviour::Hangs, CallError::Unknown(UnknownWhy::Late)),
    ] {
        world.call("shard#5/x", "count").await.unwrap();
        *world.probe.leaving.lock().unwrap() = leaving;
        assert_eq!(world.host.serve(delete("shard#5/x")).await, Err(error));
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!((world.host.objects(shard()), world.host.residents.count()), (Ok(0), 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_in_a_draining_shard_is_held() {
    let world = world(HostOptions::default());
    world.slot().set_admitting(false);
    let held = world.begin(delete("shard#5/x")).await;
    assert!(!held.is_finished());
    world.slot().drop_claim();
    assert!(matches!(held.await.unwrap(), Err(CallError::NotOwner { .. })));
}
