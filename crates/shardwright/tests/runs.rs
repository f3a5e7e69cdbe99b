//! Runs of the library: start, join, resume, finish.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shardwright::connectors::Lines;
use shardwright::{Error, Item, ItemError, Outcome, RunEnd, Shardwright, StopSignal};

async fn open(folder: &Path) -> Shardwright {
    Shardwright::open(&format!("file:{}", folder.join("state").display())).await.unwrap()
}

async fn numbers(folder: &Path, count: u64) -> Lines {
    let file = folder.join(format!("numbers-{count}"));
    let numbers: String = (0..count).map(|n| format!("{n}\n")).collect();
    std::fs::write(&file, numbers).unwrap();
    Lines::open(file).await.unwrap()
}

fn results(outcome: &Outcome) -> String {
    std::fs::read_to_string(outcome.results.as_ref().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_run_is_resumed_and_has_each_result_once() {
    let folder = tempfile::tempdir().unwrap();
    let shardwright = open(folder.path()).await;
    let (stop, seen) = (StopSignal::default(), Arc::new(AtomicU64::new(0)));
    let handler = {
        let (stop, seen) = (stop.clone(), Arc::clone(&seen));
        move |item: Item| {
            if seen.fetch_add(1, Ordering::Relaxed) == 100 {
                stop.stop();
            }
            async move { Ok(format!("{}\n", item.text()?)) }
        }
    };
    let source = numbers(folder.path(), 3_000).await;
    let run = shardwright.run("it").source(source.clone()).stop(stop);
    let stopped = run.each(handler).await.unwrap();
    assert_eq!((stopped.end, stopped.results.is_some()), (RunEnd::Stopped, false));
    assert!(stopped.items < 3_000, "{stopped}");
    let run = shardwright.run("it").source(source);
    let outcome = run.each(async |item: Item| Ok(format!("{}\n", item.text()?))).await.unwrap();
    assert_eq!(outcome.to_string(), "3000 items done, 0 parked");
    let expected: String = (0..3_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(results(&outcome), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_run_calls_no_handler_again() {
    let folder = tempfile::tempdir().unwrap();
    let shardwright = open(folder.path()).await;
    let source = numbers(folder.path(), 10).await;
    for is_first in [true, false] {
        let run = shardwright.run("it").source(source.clone());
        let outcome = run
            .each(move |item: Item| {
                assert!(is_first, "{}", item.name());
                async { Ok("x") }
            })
            .await
            .unwrap();
        assert_eq!(results(&outcome), "x".repeat(10));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permanently_failing_item_is_parked_alone() {
    let folder = tempfile::tempdir().unwrap();
    let shardwright = open(folder.path()).await;
    let run = shardwright.run("it").source(numbers(folder.path(), 10).await).workers(1);
    let outcome = run
        .each(async |item: Item| match item.text()? {
            "7" => Err(ItemError::permanent("it is odd")),
            other => Ok(format!("{other} ")),
        })
        .await
        .unwrap();
    assert_eq!(outcome.to_string(), "9 items done, 1 parked");
    assert_eq!(results(&outcome), "0 1 2 3 4 5 6 8 9 ");
}

/// On one thread, so a task that blocks would stall the other.
#[tokio::test]
async fn two_tasks_of_a_process_finish_a_run_together() {
    let folder = tempfile::tempdir().unwrap();
    let shardwright = open(folder.path()).await;
    let source = numbers(folder.path(), 500).await;
    let work = async || {
        let run = shardwright.run("it").source(source.clone());
        run.each(async |item: Item| Ok(format!("{}\n", item.text()?))).await.unwrap()
    };
    let (one, other) = tokio::join!(work(), work());
    let expected: String = (0..500).map(|n| format!("{n}\n")).collect();
    assert_eq!((results(&one), results(&other)), (expected.clone(), expected));
}

#[tokio::test]
async fn resuming_with_another_source_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let shardwright = open(folder.path()).await;
    let run = shardwright.run("it").source(numbers(folder.path(), 10).await);
    run.each(async |_: Item| Ok(())).await.unwrap();
    let run = shardwright.run("it").source(numbers(folder.path(), 20).await);
    let refused = run.each(async |_: Item| Ok(())).await.unwrap_err();
    assert!(matches!(&refused, Error::Job { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("another source") && text.contains("call `Run::fresh`"), "{text}");
    assert!(!text.contains("--"), "the library has no flags: {text}");
    let run = shardwright.run("it").source(numbers(folder.path(), 20).await).fresh();
    assert_eq!(run.each(async |_: Item| Ok(())).await.unwrap().items, 20);
}

#[tokio::test]
async fn results_of_another_run_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let (shardwright, out) = (open(folder.path()).await, folder.path().join("out"));
    let source = numbers(folder.path(), 10).await;
    let run = shardwright.run("one").source(source.clone()).results(&out);
    run.each(async |_: Item| Ok(())).await.unwrap();
    let run = shardwright.run("other").source(source).results(&out);
    let refused = run.each(async |_: Item| Ok(())).await.unwrap_err().to_string();
    assert!(refused.contains("belongs to run one; choose another location"), "{refused}");
    assert!(refused.contains("`Run::results`"), "{refused}");
}

#[test]
fn an_inactive_run_is_reported_with_a_remedy() {
    let text = |status| Error::NotActive { name: "it".to_owned(), status }.to_string();
    assert_eq!(text("paused"), "run it is paused; `shardwright resume it` resumes it");
    assert!(text("cancelled").starts_with("run it is cancelled; call `Run::fresh`"));
}

#[tokio::test]
async fn missing_or_invalid_inputs_are_named() {
    let url = Shardwright::open("redis://a").await.err().unwrap();
    assert!(matches!(url, Error::Url(_)), "{url}");
    let folder = tempfile::tempdir().unwrap();
    let shardwright = open(folder.path()).await;
    let no_source = shardwright.run("it").each(async |_: Item| Ok(())).await.unwrap_err();
    assert!(matches!(no_source, Error::NoSource { .. }), "{no_source}");
    let run = shardwright.run("no name").source(numbers(folder.path(), 1).await);
    let no_name = run.each(async |_: Item| Ok(())).await.unwrap_err();
    assert!(matches!(no_name, Error::Name { .. }), "{no_name}");
    assert!(no_name.to_string().starts_with("\"no name\" is not a run name"), "{no_name}");
}

#[tokio::test]
async fn state_of_another_user_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    // Only a privileged user can give a folder to another one.
    if std::os::unix::fs::chown(&state, Some(54_321), None).is_ok() {
        let opened = Shardwright::open(&format!("file:{}", state.display())).await;
        let refused = opened.err().unwrap().to_string();
        assert!(refused.contains("belongs to user 54321"), "{refused}");
        assert!(refused.ends_with("list the folder in SHARDWRIGHT_TRUSTED_FOLDERS"), "{refused}");
    }
}
