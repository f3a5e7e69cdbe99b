//! The result lines of items that are done, and of those that have failed.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use shardwright_process::{BatchInput, Limits, PersistentProcess, Spill, Template};
use shardwright_worker::connector::{Item, Payload};
use shardwright_worker::handler::{Batch, Handler};

use crate::programs::{assignment, guard, per_batch, per_item, row, script, template};

/// The lines of the items, without the run times. A failure is the line of its record.
async fn lines(handler: &impl Handler, items: &[Item], attempt: u32) -> Vec<Value> {
    let assignment = assignment();
    let batch = Batch { assignment: &assignment, sequence: 0, items, attempt };
    let line = |outcome: Result<Vec<u8>, _>| {
        let line =
            outcome.unwrap_or_else(|failure: shardwright_worker::ItemFailure| failure.record);
        assert!(line.ends_with(b"\n"));
        let mut line: Value = serde_json::from_slice(&line).unwrap();
        line.as_object_mut().unwrap().remove("ms");
        line
    };
    handler.process(batch).await.into_iter().map(line).collect()
}

async fn line_of(text: &str, folder: &Path, attempt: u32) -> Value {
    let item = Item { size: Some(5), ..row(6, "the row") };
    let handler = per_item(script(text, folder), folder);
    lines(&handler, &[item], attempt).await.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn line_has_what_is_known_about_the_item() {
    let folder = tempfile::tempdir().unwrap();
    let key = "\0\0\0\0\0\0\0\u{6}";
    let known = json!({"key": key, "item": "the row", "row": 7, "bytes": 5});
    for (text, attempt, more) in [
        ("exit", 1, json!({"exit": 0})),
        ("echo a; echo b >&2", 1, json!({"exit": 0, "stdout": "a\n", "stderr": "b\n"})),
        (
            "echo a; echo b >&2; exit 3",
            2,
            json!({
                "exit": 3, "attempts": 2, "stdout": "a\n", "stderr": "b\n",
                "failed": "exit code 3: b",
            }),
        ),
        ("kill -TERM $$", 1, json!({"signal": 15, "failed": "killed by signal 15"})),
    ] {
        let mut expected = known.clone();
        expected.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(line_of(text, folder.path(), attempt).await, expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn item_is_named_as_the_command_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let handler = per_item(template(&["true"]), folder.path());
    let file = |path: &[u8], key: &'static [u8]| Item {
        key: Bytes::from_static(key),
        size: None,
        payload: Payload::File(OsString::from_vec(path.to_vec()).into()),
    };
    for (item, expected) in [
        (file(b"data/a", b"a"), json!({"key": "a", "item": "data/a", "exit": 0})),
        (file(b"-a", b"a"), json!({"key": "a", "item": "./-a", "exit": 0})),
        (file(b"a", b"a"), json!({"key": "a", "exit": 0})),
        (file(b"\xff", b"a"), json!({"key": "a", "item": {"base64": "/w=="}, "exit": 0})),
    ] {
        assert_eq!(lines(&handler, &[item], 1).await, [expected]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_outputs_of_any_try_are_files() {
    let folder = tempfile::tempdir().unwrap();
    let writes = "head -c 3000 /dev/zero; head -c 2000 /dev/zero >&2; exit ";
    for code in [0, 4] {
        let line = line_of(&format!("{writes}{code}"), folder.path(), 1).await;
        assert_eq!((&line["exit"], line.get("stdout")), (&code.into(), None), "{line}");
        for (stream, length) in [("stdout", 3_000), ("stderr", 2_000)] {
            let content = vec![0; length];
            let path = line[format!("{stream}_path")].as_str().unwrap();
            assert_eq!(fs::read(path).unwrap(), content);
            assert_eq!(line[format!("{stream}_bytes")], length);
            let digest = blake3::hash(&content).to_hex().to_string();
            assert_eq!(line[format!("{stream}_blake3")], digest);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_before_a_limit_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let limited =
        |text: &str, limits| per_item(script(text, folder.path()), folder.path()).limits(limits);
    let at_most = Limits { max_output_bytes: Some(4), ..Limits::default() };
    let too_much = limited("echo b >&2; yes", at_most);
    let line = lines(&too_much, &[row(0, "a")], 1).await.remove(0);
    assert_eq!((&line["stdout"], &line["signal"]), (&"y\ny\n".into(), &9.into()), "{line}");
    assert_eq!(line["failed"], "wrote more than 4 bytes to stdout");
    let late = Limits { timeout_ms: Some(1_000), ..Limits::default() };
    let too_late = limited("trap 'echo end; exit 7' TERM; echo begin; sleep 1000 & wait", late);
    let line = lines(&too_late, &[row(0, "a")], 1).await.remove(0);
    assert_eq!((&line["stdout"], &line["exit"]), (&"begin\nend\n".into(), &7.into()), "{line}");
    assert_eq!(line["failed"], "timed out after 1 s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn item_whose_program_was_not_started_has_no_exit() {
    let folder = tempfile::tempdir().unwrap();
    let handler = per_item(template(&["echo", "{}"]), folder.path());
    let line = lines(&handler, &[row(0, *b"a\0b")], 1).await.remove(0);
    assert!(line.get("exit").is_none() && line.get("signal").is_none(), "{line}");
    assert!(line["failed"].as_str().unwrap().contains("echo cannot be started"), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_of_a_batch_are_in_its_first_line() {
    let folder = tempfile::tempdir().unwrap();
    for code in [0, 3] {
        let text = format!("cat; echo b >&2; exit {code}");
        let handler = per_batch(script(&text, folder.path()), folder.path(), BatchInput::Lines);
        let lines = lines(&handler, &[row(0, "a"), row(1, "b")], 1).await;
        let outputs = |line: &Value| [line["stdout"].clone(), line["stderr"].clone()];
        assert_eq!(outputs(&lines[0]), ["a\nb\n", "b\n"], "{lines:?}");
        assert_eq!(outputs(&lines[1]), [Value::Null, Value::Null]);
        for line in lines {
            assert_eq!((&line["exit"], &line["batch"]), (&code.into(), &0.into()));
            assert_eq!(line.get("failed").is_some(), code != 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_persistent_programs_have_no_more_than_they_know() {
    let folder = tempfile::tempdir().unwrap();
    let answers = r#"echo '{"type":"hello","version":1}' >&4; read -r _ <&3
        read -r _ <&3; echo '{"type":"done","id":1,"output":"a"}' >&4
        read -r _ <&3; echo '{"type":"failed","id":2,"detail":"no luck"}' >&4
        read -r _ <&3; echo worse >&2; exit 5"#;
    let command = Template::new(&["sh", "-c", answers].map(OsString::from)).unwrap();
    let (spill, logs) = (Spill::new(folder.path().join("spill"), 100), folder.path().join("logs"));
    let handler =
        PersistentProcess::new(command, guard(), logs, spill, 1, Duration::from_secs(600));
    let expected = [
        json!({"exit": 0, "stdout": "a"}),
        json!({"failed": "no luck"}),
        json!({
            "exit": 5, "stderr": "worse\n",
            "failed": "the worker ended unexpectedly: exit code 5: worse",
        }),
    ];
    for (number, more) in (0..).zip(expected) {
        let item = row(number, "x");
        let mut line = lines(&handler, &[item], 1).await.remove(0);
        let line = line.as_object_mut().unwrap();
        for known in ["key", "item", "row"] {
            assert!(line.remove(known).is_some(), "{known}");
        }
        assert_eq!(Value::Object(line.clone()), more);
    }
    handler.close().await;
}
