//! Machines that share a run and not their folders.

use std::fs;
use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};
use shardwright_store::testing::EtcdCluster;

use crate::support::{Site, keys, text, wait_until};

fn told(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

#[tokio::test]
async fn machines_that_keep_their_results_each_have_their_own_and_say_so() {
    let cluster = EtcdCluster::single().await.unwrap();
    let store = format!("etcd://{}", cluster.address(0).unwrap());
    let shared = Site::with_files(200);
    let (one, other) = (Site::new(), Site::new());
    let (data, marks) = (shared.path("data"), shared.path("marks"));
    fs::create_dir(&marks).unwrap();
    let script = format!("echo > {}/$PPID; sleep 0.03; cat \"$1\"", marks.display());
    let data = data.to_str().unwrap();
    let flags = ["--store", &store, "--run", "apart", "--out-local", "-j", "2"];
    let command = [&["run", data], &flags[..], &["--", "sh", "-c", &script, "sh", "{}"]].concat();
    let children = [&one, &other].map(|site| site.start_piped(&command));
    wait_until(|| fs::read_dir(&marks).unwrap().count() == 2);
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        assert!(told(&output).contains("results of this machine only"), "{}", told(&output));
    }
    let mut all = [one.keys("apart"), other.keys("apart")];
    assert!(all.iter().all(|keys| !keys.is_empty() && keys.is_sorted()));
    let both = all.iter_mut().flat_map(std::mem::take).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(both.len(), 200);
    for site in [&one, &other] {
        let receipt = site.receipt("apart");
        let (here, elsewhere) = (&receipt["results"]["keys"], &receipt["results"]["elsewhere"]);
        assert_eq!(here.as_u64().unwrap(), site.keys("apart").len() as u64);
        assert_eq!(here.as_u64().unwrap() + elsewhere.as_u64().unwrap(), 200);
        let told = site.expect(0, &["verify", "apart", "--store", &store]);
        assert!(told.contains("the receipt holds") && told.contains("only its own"), "{told}");
        // It can be told again, and what is missing is found.
        assert!(site.expect(0, &command).contains("was done before"));
        let results = site.results("apart").join("results.jsonl");
        let lines = fs::read_to_string(&results).unwrap();
        fs::write(&results, lines.split_once('\n').unwrap().1).unwrap();
        site.expect(1, &["verify", "apart", "--store", &store]);
    }
}

#[tokio::test]
async fn a_machine_that_does_not_reach_the_results_is_refused_at_once() {
    let cluster = EtcdCluster::single().await.unwrap();
    let store = format!("etcd://{}", cluster.address(0).unwrap());
    let shared = Site::with_files(3);
    let (one, other) = (Site::new(), Site::new());
    let (data, mark) = (shared.path("data"), shared.path("mark"));
    let script = format!("echo > {}; sleep 1000", mark.display());
    let run = |out: &str| -> Vec<String> {
        let data = data.to_str().unwrap();
        let flags = ["run", data, "--store", &store, "--run", "far", "--out", out, "--", "sh"];
        let command = [&flags[..], &["-c", &script, "sh", "{}"]].concat();
        command.into_iter().map(str::to_owned).collect()
    };
    let (there, here) = (run("out"), run(one.path("out").to_str().unwrap()));
    let there: Vec<&str> = there.iter().map(String::as_str).collect();
    let here: Vec<&str> = here.iter().map(String::as_str).collect();
    let mut child = one.start(&there);
    wait_until(|| mark.exists());
    // The same words mean another folder elsewhere.
    assert!(other.expect(2, &there).contains("results on"));
    // The same path may be another folder elsewhere.
    fs::rename(one.path("out"), one.path("kept")).unwrap();
    assert!(other.expect(2, &here).contains("every worker has to reach"));
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn two_that_begin_at_once_make_one_run_with_one_place() {
    let cluster = EtcdCluster::single().await.unwrap();
    let store = format!("etcd://{}", cluster.address(0).unwrap());
    for round in 0..5 {
        let site = Site::with_files(20);
        let name = format!("together-{round}");
        let flags = ["--store", &store, "--run", &name, "--out", "out", "--", "cat", "{}"];
        let command = [&["run", "data"], &flags[..]].concat();
        let children = [(); 3].map(|()| site.start_piped(&command));
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        }
        assert_eq!(keys(&site.path("out/results.jsonl")).len(), 20);
        assert_eq!(fs::read_dir(site.path("out/segments")).unwrap().count(), 1);
    }
}
