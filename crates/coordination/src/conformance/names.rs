//! Names of runs, and estimates of holders.

use shardwright_contracts::RunId;
use shardwright_contracts::limits::MAX_RUN_DESCRIPTION_SIZE;

use super::{Harness, World};
use crate::directory::{AsyncRunDirectory, NameRunError, RunLabel, RunName};
use crate::estimate::{AsyncWorkEstimates, WorkEstimate};

const BOUNDS: &[&[u8]] = &[b"a", b"m", b"z"];

fn label(description: &str) -> RunLabel {
    RunLabel { name: RunName::new("nightly").unwrap(), description: description.as_bytes().into() }
}

/// A name keeps its first run until a caller that names this run replaces it.
pub async fn name_points_to_one_run_at_a_time<H: Harness>(harness: &H) {
    let (tenant, backend) = (harness.fresh_tenant(), harness.backend());
    let (one, two, three) = (RunId::from_raw(1), RunId::from_raw(2), RunId::from_raw(3));
    let (old, new) = (label("old"), label("new"));
    assert_eq!(backend.find_run(tenant, old.name).await, Ok(None));
    assert_eq!(backend.name_run(tenant, one, &old, None).await, Ok(one));
    assert_eq!(backend.name_run(tenant, one, &old, None).await, Ok(one), "a repeated call");
    assert_eq!(backend.name_run(tenant, two, &new, None).await, Ok(one));
    assert_eq!(backend.name_run(tenant, two, &new, Some(three)).await, Ok(one));
    assert_eq!(backend.name_run(tenant, two, &new, Some(one)).await, Ok(two));
    assert_eq!(backend.find_run(tenant, old.name).await, Ok(Some(two)));
    assert_eq!(backend.label_of(tenant, one).await, Ok(Some(old.clone())));
    assert_eq!(backend.label_of(tenant, three).await, Ok(None));
    let labels = backend.list_labels(tenant).await;
    assert_eq!(labels, Ok(vec![(one, old), (two, new)]));
}

/// A name points to new runs only, and its description is bounded.
pub async fn name_needs_a_new_run_and_a_bounded_description<H: Harness>(harness: &H) {
    let world = World::new(harness, BOUNDS).await;
    let (tenant, backend, run) = (world.tenant, world.backend(), world.run);
    let used = backend.name_run(tenant, run, &label("late"), None).await;
    assert_eq!(used, Err(NameRunError::RunIdUsed { run }));
    let (length, other) = (MAX_RUN_DESCRIPTION_SIZE + 1, RunId::from_raw(2));
    let large = backend.name_run(tenant, other, &label(&"x".repeat(length)), None).await;
    assert_eq!(large, Err(NameRunError::LabelTooLarge { length }));
    let fits =
        backend.name_run(tenant, other, &label(&"x".repeat(MAX_RUN_DESCRIPTION_SIZE)), None).await;
    assert_eq!(fits, Ok(other));
    let again = backend.name_run(tenant, other, &label("again"), None).await;
    assert_eq!(again, Ok(other), "the run has the name already");
    let second = RunLabel { name: RunName::new("weekly").unwrap(), ..label("again") };
    let twice = backend.name_run(tenant, other, &second, None).await;
    assert_eq!(twice, Err(NameRunError::RunIdUsed { run: other }));
}

/// The last estimate of each holder is listed, in the order of shards.
pub async fn last_estimate_of_each_holder_is_listed<H: Harness>(harness: &H) {
    let world = World::new(harness, BOUNDS).await;
    let (tenant, backend, run) = (world.tenant, world.backend(), world.run);
    assert_eq!(backend.list_estimates(tenant, run).await, Ok(Vec::new()));
    let (second, first) = (world.acquire(1, 2).await, world.acquire(0, 1).await);
    let left = |left_items| WorkEstimate { left_items, ..WorkEstimate::default() };
    for (lease, estimate) in
        [(&second, left(Some(9))), (&first, left(None)), (&second, left(Some(5)))]
    {
        backend.publish_estimate(tenant, lease, estimate).await.unwrap();
    }
    let listed = backend.list_estimates(tenant, run).await.unwrap();
    let seen: Vec<_> =
        listed.iter().map(|it| (it.shard, it.fence, it.holder, it.estimate)).collect();
    let published =
        |lease: &crate::Lease, items| (lease.shard(), lease.fence(), lease.owner(), left(items));
    assert_eq!(seen, [published(&first, None), published(&second, Some(5))]);
    let stranger = harness.fresh_tenant();
    assert_eq!(backend.list_estimates(stranger, run).await, Ok(Vec::new()));
}
