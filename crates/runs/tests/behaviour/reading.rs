//! Reads of runs that are being deleted or incomplete.

use std::future::Future;
use std::sync::{Arc, Mutex};

use shardwright_contracts::CursorUpdate;
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming, IdempotentOutcome,
    InfraError, RunQueryError, RunTransitionError, ShardFilter,
};
use shardwright_runs::Retention;
use shardwright_store::StoreLimits;
use shardwright_store::memory::{Before, HookedCall, Hooks};

use crate::flaky::{FlakyStore, Reaction};
use crate::quarantine::{corrupt, delete};
use crate::site::{Engine, RUN, Site, TENANT, list, op, shard, start, worker};

const AT_ONCE: Retention = Retention { ended_ms: 1, initializing_ms: 1 };
const FEW_WRITES: StoreLimits =
    StoreLimits { expectations: 16, writes: 9, key_bytes: 1_024, bytes: 1 << 20 };

async fn collect(engine: &Engine) {
    engine.collect_into(AT_ONCE, &mut Vec::new()).await.unwrap();
}

fn with_an_ended_run() -> Site {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 12));
    site.run(engine.cancel_run(TENANT, RUN, op(1))).unwrap();
    site.world.advance(10);
    site
}

fn is_gone<T: std::fmt::Debug>(found: &Result<T, RunQueryError>) -> bool {
    matches!(found, Err(RunQueryError::RunNotFound(_)))
}

#[test]
fn run_being_deleted_is_not_found() {
    let mut deaths = 0;
    loop {
        let site = with_an_ended_run();
        let store = FlakyStore::with_limits(site.store.clone(), FEW_WRITES);
        let engine = site.engine_over(store.clone(), Site::config());
        // The first commit of a coordinator is the clock's mark.
        site.run(list(&engine));
        store.always_after(deaths, Reaction::HangAfter);
        if site.world.run_or_drop(collect(&engine)).is_some() {
            break;
        }
        let other = site.engine();
        let record = site.run(other.get_run(TENANT, RUN));
        assert!(is_gone(&record), "at commit {deaths}: {record:?}");
        let progress = site.run(other.get_run_progress(TENANT, RUN));
        assert!(is_gone(&progress), "at commit {deaths}: {progress:?}");
        let listed = site.run(other.list_shards(TENANT, RUN, ShardFilter::all()));
        assert!(is_gone(&listed), "at commit {deaths}: {listed:?}");
        let inspected = site.run(other.inspect_shards(TENANT, RUN));
        assert!(is_gone(&inspected), "at commit {deaths}: {inspected:?}");
        deaths += 1;
    }
    assert!(deaths > 4, "too few commits: {deaths}");
}

/// Deletes the run, up to some commit, before one of a client's reads.
#[derive(Default)]
struct DeleteBefore(Mutex<Option<Delete>>);

struct Delete {
    /// Reads until then.
    skip: usize,
    /// Deletes the run.
    delete: Box<dyn FnMut() + Send>,
}

impl Hooks for DeleteBefore {
    fn before(&self, call: HookedCall<'_>) -> impl Future<Output = Before> + Send {
        let is_read = matches!(call, HookedCall::Load(_) | HookedCall::Scan(..));
        let mut armed = self.0.lock().unwrap();
        match armed.as_mut().filter(|_| is_read) {
            Some(delete) if delete.skip > 0 => delete.skip -= 1,
            Some(_) => armed.take().into_iter().for_each(|mut it| (it.delete)()),
            None => {}
        }
        std::future::ready(Before::Go)
    }
}

/// Outcome of a read: the number of shards it shows; none if the run is not found.
type Shown = Option<usize>;

/// Performs a read, and deletes the run up to a commit before one of the read's own reads. Returns
/// the outcome, and whether the run was deleted meanwhile.
fn read_while_deleting(skip: usize, commits: usize, is_list: bool) -> (Shown, bool) {
    let site = with_an_ended_run();
    let hooks = Arc::new(DeleteBefore::default());
    let reader = site.engine_over(site.store.client(Arc::clone(&hooks)), Site::config());
    let few = FlakyStore::with_limits(site.store.clone(), FEW_WRITES);
    let collector = site.engine_over(few.clone(), Site::config());
    // The first commit of a coordinator is the clock's mark.
    for engine in [&reader, &collector] {
        site.run(list(engine));
    }
    few.always_after(commits, Reaction::HangAfter);
    let world = site.world.clone();
    let delete = Box::new(move || _ = world.run_or_drop(collect(&collector)));
    *hooks.0.lock().unwrap() = Some(Delete { skip, delete });
    let shown = match is_list {
        true => {
            let listed = site.run(reader.list_shards(TENANT, RUN, ShardFilter::all()));
            listed.map(|listed| listed.len())
        }
        false => {
            let progress = site.run(reader.get_run_progress(TENANT, RUN));
            progress.map(|progress| progress.total() as usize)
        }
    };
    let is_deleted = hooks.0.lock().unwrap().is_none();
    match shown {
        Ok(shards) => (Some(shards), is_deleted),
        Err(RunQueryError::RunNotFound(_)) => (None, is_deleted),
        Err(error) => panic!("before read {skip}, up to commit {commits}: {error:?}"),
    }
}

#[test]
fn run_deleted_during_a_read_is_whole_or_not_found() {
    // A list ends with the read that finds the run still there. Progress then raises its watermark,
    // which takes two reads.
    for (is_list, reads_after_the_check) in [(true, 0), (false, 2)] {
        for commits in 0..8 {
            let mut outcomes = Vec::new();
            loop {
                let (shown, is_deleted) = read_while_deleting(outcomes.len(), commits, is_list);
                if !is_deleted {
                    assert_eq!(shown, Some(12), "undisturbed");
                    break;
                }
                outcomes.push(shown);
            }
            let checked = outcomes.len() - reads_after_the_check;
            assert!(checked >= 4, "the run, its owners, its shards and the check: {outcomes:?}");
            let expected = |read| if read < checked { None } else { Some(12) };
            let expected: Vec<Shown> = (0..outcomes.len()).map(expected).collect();
            assert_eq!(outcomes, expected, "a list: {is_list}, up to commit {commits}");
        }
    }
}

/// Completes the shards of the run.
async fn finish(engine: &Engine, shards: u64) {
    for id in 0..shards {
        let claimed = engine.claim_next_available(TENANT, RUN, worker(1)).await.unwrap();
        let cursor = CursorUpdate::initial();
        engine.complete(TENANT, &claimed.lease, cursor, op(id)).await.unwrap();
    }
}

#[test]
fn shard_without_progress_is_reported_as_damage() {
    for last in [0, 2] {
        let site = Site::new();
        let engine = site.engine();
        site.run(start(&engine, 3));
        site.run(finish(&engine, 3));
        site.run(delete(&site, site.keys.progress(TENANT, shard(last))));
        let completed = site.run(engine.complete_run(TENANT, RUN, op(9)));
        assert!(
            matches!(completed, Err(RunTransitionError::BackendError(InfraError::Corrupt { .. }))),
            "{completed:?}"
        );
        let listed = site.run(engine.list_shards(TENANT, RUN, ShardFilter::all()));
        assert!(matches!(listed, Err(RunQueryError::BackendError(InfraError::Corrupt { .. }))));
    }
}

#[test]
fn replayed_completion_reads_no_shards() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 3));
    site.run(finish(&engine, 3));
    site.run(engine.complete_run(TENANT, RUN, op(9))).unwrap();
    site.run(corrupt(&site, site.keys.progress(TENANT, shard(1))));
    let commits = store.commits();
    let again = site.run(engine.complete_run(TENANT, RUN, op(9)));
    assert_eq!(again, Ok(IdempotentOutcome::Replayed(())));
    assert_eq!(store.commits(), commits);
}
