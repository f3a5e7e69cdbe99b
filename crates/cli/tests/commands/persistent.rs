//! `run --persistent`: long-lived workers that receive items over the worker protocol.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Site, outputs, wait_until};

const DOCUMENT: &str = include_str!("../../../../docs/worker-protocol.md");

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// Writes a worker as a shell script. `body` runs for each item with `$id` and `$item`, and calls
/// `finish` to answer.
fn worker(site: &Site, body: &str) -> String {
    let script = format!(
        r#"echo '{{"type":"hello","version":1}}' >&4
        finish() {{ echo "{{\"type\":\"done\",\"id\":$id}}" >&4; }}
        while read -r line <&3; do
            case $line in *'"type":"item"'*) ;; *) continue ;; esac
            id=${{line#*\"id\":}}; id=${{id%%,*}}
            item=${{line#*\"item\":\"}}; item=${{item%%\"*}}
            {body}
        done"#
    );
    fs::write(site.path("worker"), script).unwrap();
    "worker".to_owned()
}

#[test]
fn documented_workers_equal_the_examples_and_work() {
    let site = Site::with_files(40);
    for (name, shell) in [("persistent_worker.sh", "sh"), ("persistent_worker.py", "python3")] {
        let program = example(name);
        assert!(DOCUMENT.contains(&fs::read_to_string(&program).unwrap()), "{name}");
        let program = program.to_str().unwrap();
        let run = if shell == "sh" { "shell" } else { "python" };
        let flags = ["run", "data", "--run", run, "--persistent", "--in-flight", "8"];
        site.expect(0, &[&flags[..], &["--", shell, program]].concat());
        assert!(site.expect(0, &["verify", run]).contains("the receipt holds"));
        let results = site.results(run).join("results.jsonl");
        for (key, output) in outputs(&results) {
            let expected = match run {
                "shell" => format!("data/{key}").len(),
                _ => fs::read(site.path("data").join(&key)).unwrap().len(),
            };
            assert_eq!(output, expected.to_string(), "{run} {key}");
        }
    }
}

#[test]
fn stdout_and_stderr_of_a_worker_are_logged_and_not_parsed() {
    let site = Site::with_files(3);
    let worker = worker(&site, r#"echo '{"type":"done","id":99}'; echo loud >&2; finish"#);
    let command = ["run", "data", "--run", "loud", "-j", "1", "--persistent", "--", "sh", &worker];
    site.expect(0, &command);
    let run = site.receipt("loud")["run"].as_str().unwrap().to_owned();
    let folder = site.results("loud").join("logs").join(run);
    let logs = fs::read_dir(&folder).unwrap();
    let logs: Vec<String> =
        logs.map(|log| fs::read_to_string(log.unwrap().path()).unwrap()).collect();
    assert_eq!(logs.len(), 1, "{logs:?}");
    assert_eq!(logs[0].matches("loud").count(), 3);
    assert_eq!(logs[0].matches("99").count(), 3);
    site.expect(0, &["gc", "--keep-days", "0"]);
    assert!(!folder.exists());
}

#[test]
fn command_without_worker_protocol_ends_the_run_with_an_error() {
    let site = Site::with_files(3);
    let run = |command: &[&str]| {
        site.expect(2, &[&["run", "data", "--persistent", "--"], command].concat())
    };
    assert!(run(&["true"]).contains("ended unexpectedly: exit code 0"));
    assert!(run(&["sh", "-c", "echo no such table >&2; exit 3"]).contains("no such table"));
    assert!(run(&["sh", "-c", "echo hi >&4"]).contains("malformed line: hi"));
    assert!(run(&["no-such-program"]).contains("no-such-program cannot be started"));
    assert!(run(&["cat", "{}"]).contains("leave out the placeholders of items"));
    let other = r#"echo '{"type":"hello","version":7}' >&4; cat <&3"#;
    assert!(run(&["sh", "-c", other]).contains("version 7"));
    let early = r#"echo '{"type":"done","id":1}' >&4; cat <&3"#;
    assert!(run(&["sh", "-c", early]).contains("first line is not a hello"));
}

#[test]
fn item_that_breaks_workers_is_parked_alone() {
    for (name, end) in [
        ("dies", "echo no luck >&2; exit 9"),
        ("malformed", "echo nonsense >&4"),
        ("wrong-id", r#"echo '{"type":"done","id":123456}' >&4"#),
        ("repeats", "finish; finish"),
        ("too-long", "head -c 2000000 /dev/zero | tr '\\0' x >&4"),
        ("closes", "exec 4>&-; sleep 1000"),
    ] {
        let site = Site::with_files(60);
        fs::write(site.path("data/05/zzz-bad"), "bad").unwrap();
        let body = format!("case $item in *-bad) {end} ;; esac; finish");
        let worker = worker(&site, &body);
        let flags = ["--persistent", "--in-flight", "16", "-j", "2", "--retries", "1", "--"];
        let command = [&["run", "data", "--run", name], &flags[..], &["sh", &worker]].concat();
        let printed = site.expect(if name == "repeats" { 0 } else { 3 }, &command);
        let expected = match name {
            "dies" => "exit code 9: no luck",
            "malformed" => "malformed line: nonsense",
            "wrong-id" => "item 123456, which it does not hold",
            "too-long" => "a line of more than 1048576 bytes",
            "closes" => "closed its output",
            _ => "",
        };
        assert!(printed.contains(expected), "{name}: {printed}");
        let keys = site.keys(name);
        let has_item = keys.iter().any(|key| key.ends_with("-bad"));
        assert_eq!(
            (keys.len(), has_item),
            if name == "repeats" { (61, true) } else { (60, false) }
        );
        assert!(site.expect(0, &["verify", name]).contains("the receipt holds"));
    }
}

#[test]
fn kill_of_the_program_ends_workers_and_their_children() {
    let site = Site::with_files(4);
    let marks = site.path("marks");
    fs::create_dir(&marks).unwrap();
    let body = "sleep 1000 & echo > marks/$!; echo > marks/$$; wait";
    let worker = worker(&site, body);
    let mut child = site.start(&["run", "data", "-j", "2", "--persistent", "--", "sh", &worker]);
    let mut ids: Vec<i32> = Vec::new();
    wait_until(|| {
        let names = fs::read_dir(&marks).unwrap().map(|entry| entry.unwrap().file_name());
        ids = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
        ids.len() == 4
    });
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
    wait_until(|| ids.iter().all(|id| !fs::exists(format!("/proc/{id}")).unwrap()));
}

#[test]
fn refused_retry_of_a_persistent_program_leaves_items_parked() {
    let site = Site::with_files(1);
    let failing = r#"echo "{\"type\":\"failed\",\"id\":$id,\"detail\":\"broken\"}" >&4"#;
    let worker = worker(&site, failing);
    let flags = ["run", "data", "--run", "bad", "--retries", "0", "--persistent", "--"];
    site.expect(3, &[&flags[..], &["sh", &worker]].concat());
    fs::write(site.path("worker"), "exit 5").unwrap();
    let printed = site.expect(2, &["retry", "--parked", "bad"]);
    assert!(printed.contains("ended unexpectedly: exit code 5"), "{printed}");
    assert!(site.expect(0, &["parked", "bad"]).contains("broken"));
}
