//! Runs over a bucket of an S3 server, with results in the same bucket.

use crate::s3::S3Server;
use crate::support::{Site, text};

struct Bucket {
    server: S3Server,
    site: Site,
}

impl Bucket {
    fn expect(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.site.command(arguments).envs(self.server.environment()).output().unwrap();
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{printed}");
        printed
    }
}

#[test]
fn run_with_source_and_results_in_a_bucket_verifies() {
    let (server, site) = (S3Server::start(), Site::new());
    server.put("bucket", "");
    for number in 0..60 {
        server.put(&format!("bucket/in/{:02}/{number:03}", number % 7), "x");
    }
    server.put("bucket/other", "outside of the source");
    let bucket = Bucket { server, site };
    let inside = ["run", "s3://bucket/in", "--out", "s3://bucket/in/out", "--", "echo", "{}"];
    assert!(bucket.expect(2, &inside).contains("is part of the source"));
    // The output of item 17 is long, and is stored as an object of its own.
    let script = "echo $1; case $1 in *17) head -c 100000 /dev/zero | tr '\\0' x;; esac";
    let out = ["--out", "s3://bucket/out", "--run", "bucket", "-j", "2", "--"];
    let command =
        [&["run", "s3://bucket/in"], &out[..], &["sh", "-c", script, "sh", "{}"]].concat();
    let printed = bucket.expect(0, &command);
    assert!(
        printed.contains("60 items") && printed.contains("s3://bucket/out/results.jsonl"),
        "{printed}"
    );
    assert!(bucket.expect(0, &["verify", "bucket"]).contains("the receipt holds"));
    assert!(bucket.expect(0, &command).contains("is already done"));
    // Another run cannot write to the same location.
    let other =
        ["run", "s3://bucket/in", "--out", "s3://bucket/out", "--run", "other", "--", "true"];
    assert!(bucket.expect(2, &other).contains("belongs to run bucket"));
    // `verify` notes new objects, and finds altered results.
    bucket.server.put("bucket/in/zz/new", "x");
    let printed = bucket.expect(0, &["verify", "bucket"]);
    assert!(printed.contains("1 are new") && printed.contains("the receipt holds"), "{printed}");
    let results = bucket.server.get("bucket/out/results.jsonl");
    let address = results.split('"').find(|part| part.starts_with("s3://bucket/out/stdout/"));
    let long = address.unwrap().strip_prefix("s3://").unwrap();
    let output = bucket.server.get(long);
    bucket.server.put(long, &output.replacen('x', "y", 1));
    assert!(bucket.expect(1, &["verify", "bucket"]).contains("differs from what was written"));
    bucket.server.put(long, &output);
    bucket.expect(0, &["verify", "bucket"]);
    // The same bytes at another place are not the output of the run.
    for copy in ["bucket/out/copy", "bucket/out/stdout/copy"] {
        bucket.server.put(copy, &output);
        bucket.server.put("bucket/out/results.jsonl", &results.replace(long, copy));
        let printed = bucket.expect(1, &["verify", "bucket"]);
        assert!(printed.contains("it is not at the location of the results"), "{printed}");
    }
    bucket.server.put("bucket/out/results.jsonl", "{}\n");
    bucket.expect(1, &["verify", "bucket"]);
    // `gc` keeps other objects in the bucket, and the same command starts a new run.
    bucket.server.put("bucket/out/logs/mine", "mine");
    let printed = bucket.expect(0, &["gc", "--keep-days", "0"]);
    assert!(printed.contains("removed s3://bucket/out/segments/"), "{printed}");
    assert_eq!(bucket.server.get("bucket/out/logs/mine"), "mine");
    assert!(bucket.expect(0, &command).contains("61 items"));
}

#[test]
fn command_gets_the_urls_of_objects() {
    let (server, site) = (S3Server::start(), Site::new());
    server.put("bucket", "");
    server.put("bucket/in/a", "x");
    let bucket = Bucket { server, site };
    bucket.expect(0, &["run", "s3://bucket/in/", "--run", "named", "--", "echo", "{}"]);
    let results = bucket.site.results("named").join("results.jsonl");
    let line = std::fs::read_to_string(results).unwrap();
    assert!(line.contains(r#""stdout":"s3://bucket/in/a\n""#), "{line}");
}

/// Whether bytes contain a text.
fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn credentials_of_a_successful_run_are_nowhere() {
    const SECRET: &str = "Hunter2Secret";
    let (server, site) = (S3Server::start(), Site::new());
    server.put("bucket", "");
    for number in 0..5 {
        server.put(&format!("bucket/in/{number}"), "x");
    }
    let bucket = Bucket { server, site };
    let source = format!("s3://me:{SECRET}@bucket/in?sig={SECRET}#{SECRET}");
    let out = format!("s3://me:{SECRET}@bucket/out?sig={SECRET}");
    let script = "echo $1; printenv; case $1 in *3) head -c 100000 /dev/zero | tr '\\0' x;; esac";
    let command = ["sh", "-c", script, "sh", "{}"];
    let mut shown = Vec::new();
    let run = ["run", &source, "--out", &out, "--run", "one", "--"];
    shown.push(bucket.expect(0, &[&run[..], &command].concat()));
    let local = ["--json", "run", &source, "--run", "two", "--"];
    shown.push(bucket.expect(0, &[&local[..], &command].concat()));
    shown.push(bucket.expect(0, &["scan", &source, "--run", "three", "--json"]));
    for command in [&["runs", "--json"][..], &["show", "one"], &["show", "two", "--json"]] {
        shown.push(bucket.expect(0, command));
    }
    shown.push(bucket.expect(0, &["verify", "one"]));
    for object in ["results.jsonl", "receipt.json"] {
        shown.push(bucket.server.get(&format!("bucket/out/{object}")));
    }
    for text in &shown {
        assert!(text.contains("bucket") || text.contains("holds"), "{text}");
        assert!(!has(text.as_bytes(), SECRET), "{text}");
    }
    let (mut folders, mut files) = (vec![bucket.site.path("")], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
                continue;
            }
            assert!(!has(&std::fs::read(entry.path()).unwrap(), SECRET), "{:?}", entry.path());
            files += 1;
        }
    }
    assert!(files >= 5, "{files}");
}
