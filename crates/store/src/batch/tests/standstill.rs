//! No caller waits for a batch that hangs or for a caller that is not polled.

use super::*;

type Call = Pin<Box<dyn Future<Output = Result<Revision, CommitError>> + Send>>;

fn call<E: BatchEngine>(batcher: &Batcher<E>, number: usize, shared: &str) -> Call {
    let own = Key::from(format!("own/{number}"));
    let commit = Commit::builder().expect(own.clone(), Expect::Absent).put(own, "");
    let commit = commit.put(Key::from(shared.to_owned()), "").build().unwrap();
    let batcher = batcher.clone();
    Box::pin(async move { batcher.commit(commit).await })
}

fn poll(call: &mut Call) -> Poll<Result<Revision, CommitError>> {
    call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls until the call has joined the queue and has tried to lead.
fn wait(call: &mut Call) {
    assert!(poll(call).is_pending() && poll(call).is_pending());
}

#[test]
fn a_few_commits_do_not_wait_for_a_batch_that_hangs() {
    let recorder = Recorder { slots: 2, keeps: true.into(), elsewhere: true, ..Default::default() };
    let batcher = Batcher::new(Arc::new(recorder));
    let recorder = Arc::clone(batcher.engine());
    let under_way =
        || recorder.log().kept.iter().map(|batch| batch.commits().len()).collect::<Vec<_>>();
    let mut calls: Vec<_> = (0..8).map(|at| call(&batcher, at, &format!("{at}"))).collect();
    for one in &mut calls {
        assert!(poll(one).is_pending());
    }
    for _ in 0..2 {
        let batch = recorder.log().kept.remove(0);
        recorder.carry_out(batch);
    }
    assert_eq!(under_way(), [6]);
    let mut few: Vec<_> = (8..10).map(|at| call(&batcher, at, &format!("{at}"))).collect();
    few.iter_mut().for_each(wait);
    assert_eq!(under_way(), [6], "two beside six that are fresh");
    let hanging = recorder.log().kept.remove(0);
    hanging.report_stall();
    assert_eq!(under_way(), [2], "they are started beside the batch that hangs");
    // A batch counts as in flight once, however it ends.
    let mut more: Vec<_> = (10..12).map(|at| call(&batcher, at, &format!("{at}"))).collect();
    more.iter_mut().for_each(wait);
    recorder.log().kept.insert(0, hanging);
    for expected in [vec![2, 2], vec![2], vec![]] {
        let batch = recorder.log().kept.remove(0);
        recorder.carry_out(batch);
        assert_eq!(under_way(), expected);
    }
    assert!(calls.iter_mut().chain(&mut few).chain(&mut more).all(|one| poll(one).is_ready()));
}

/// Decides elsewhere, at once. The first start runs a hook before it.
struct Quick {
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl BatchEngine for Quick {
    fn fits(&self, _: &BatchSize) -> bool {
        true
    }

    fn in_flight(&self) -> usize {
        1
    }

    fn decides_in_start(&self) -> bool {
        false
    }

    fn start(self: &Arc<Self>, batch: CommitBatch) {
        let meanwhile = self.meanwhile.lock().unwrap().take();
        meanwhile.into_iter().for_each(|happens| happens());
        let results: Vec<_> = batch.commits().map(answer).collect();
        batch.finish(results);
    }
}

#[test]
fn a_leader_starts_everything_before_it_returns() {
    let batcher = Batcher::new(Arc::new(Quick { meanwhile: Mutex::default() }));
    // All commits conflict.
    let [mut leader, lost, waiting] = [0, 1, 2].map(|number| call(&batcher, number, "shared"));
    let behind = Arc::new(Mutex::new([lost, waiting]));
    let come = Arc::clone(&behind);
    *batcher.engine().meanwhile.lock().unwrap() =
        Some(Box::new(move || come.lock().unwrap().iter_mut().for_each(wait)));
    assert!(poll(&mut leader).is_ready());
    let [_lost, waiting] = &mut *behind.lock().unwrap();
    assert!(poll(waiting).is_ready(), "the caller before it is no longer polled");
}
