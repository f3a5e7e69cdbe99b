//! Machines that share a run, but no folders.

use std::fs;
use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};
use shardwright_store::testing::EtcdCluster;

use crate::support::{Site, keys, text, wait_until};

fn printed(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

#[tokio::test]
async fn out_local_leaves_results_on_each_machine() {
    let cluster = EtcdCluster::single().await.unwrap();
    let store = format!("etcd://{}", cluster.address(0).unwrap());
    let shared = Site::with_files(200);
    let (one, other) = (Site::new(), Site::new());
    let (data, marks) = (shared.path("data"), shared.path("marks"));
    fs::create_dir(&marks).unwrap();
    let script = format!(
        "echo > {}/$(cut -d ' ' -f 4 /proc/$PPID/stat); sleep 0.03; cat \"$1\"",
        marks.display()
    );
    let data = data.to_str().unwrap();
    let flags = ["--store", &store, "--run", "apart", "--out-local", "-j", "2"];
    let command = [&["run", data], &flags[..], &["--", "sh", "-c", &script, "sh", "{}"]].concat();
    let children = [&one, &other].map(|site| site.start_piped(&command));
    wait_until(|| fs::read_dir(&marks).unwrap().count() == 2);
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
        assert!(printed(&output).contains("this machine has"), "{}", printed(&output));
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
        let printed = site.expect(0, &["verify", "apart", "--store", &store]);
        assert!(
            printed.contains("the receipt holds") && printed.contains("its own work"),
            "{printed}"
        );
        // The same command reports the finished run, and `verify` finds a missing result.
        assert!(site.expect(0, &command).contains("is already done"));
        let results = site.results("apart").join("results.jsonl");
        let lines = fs::read_to_string(&results).unwrap();
        fs::write(&results, lines.split_once('\n').unwrap().1).unwrap();
        site.expect(1, &["verify", "apart", "--store", &store]);
    }
}

#[tokio::test]
async fn machine_without_access_to_the_results_is_rejected() {
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
    let (relative, absolute) = (run("out"), run(one.path("out").to_str().unwrap()));
    let relative: Vec<&str> = relative.iter().map(String::as_str).collect();
    let absolute: Vec<&str> = absolute.iter().map(String::as_str).collect();
    let mut child = one.start(&relative);
    wait_until(|| mark.exists());
    // A relative path names another folder on the other machine.
    assert!(other.expect(2, &relative).contains("results in"));
    // An absolute path may name another folder on the other machine.
    fs::rename(one.path("out"), one.path("kept")).unwrap();
    assert!(other.expect(2, &absolute).contains("every worker must reach"));
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn concurrent_starts_create_one_run() {
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
            assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
        }
        assert_eq!(keys(&site.path("out/results.jsonl")).len(), 20);
        assert_eq!(fs::read_dir(site.path("out/segments")).unwrap().count(), 1);
    }
}
