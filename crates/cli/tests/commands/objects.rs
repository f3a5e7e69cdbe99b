//! Runs over a bucket of a real S3 server, with results in it.

use crate::s3::S3Server;
use crate::support::{Site, text};

struct Bucket {
    server: S3Server,
    site: Site,
}

impl Bucket {
    fn expect(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.site.command(arguments).envs(self.server.environment()).output().unwrap();
        let told = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{told}");
        told
    }
}

#[test]
fn a_run_over_a_bucket_with_results_in_it_is_verified() {
    let (server, site) = (S3Server::start(), Site::new());
    server.put("bucket", "");
    for number in 0..60 {
        server.put(&format!("bucket/in/{:02}/{number:03}", number % 7), "x");
    }
    server.put("bucket/other", "not a part of it");
    let bucket = Bucket { server, site };
    let inside = ["run", "s3://bucket/in", "--out", "s3://bucket/in/out", "--", "echo", "{}"];
    assert!(bucket.expect(2, &inside).contains("is a part of the source"));
    // What is long goes there as well.
    let script = "echo $1; case $1 in *17) head -c 100000 /dev/zero | tr '\\0' x;; esac";
    let out = ["--out", "s3://bucket/out", "--run", "bucket", "-j", "2", "--"];
    let command =
        [&["run", "s3://bucket/in"], &out[..], &["sh", "-c", script, "sh", "{}"]].concat();
    let told = bucket.expect(0, &command);
    assert!(told.contains("60 keys") && told.contains("s3://bucket/out/results.jsonl"), "{told}");
    assert!(bucket.expect(0, &["verify", "bucket"]).contains("the receipt holds"));
    assert!(bucket.expect(0, &command).contains("was done before"));
    // Another run cannot take the place, and one that is not there is no place to go on with.
    let other =
        ["run", "s3://bucket/in", "--out", "s3://bucket/out", "--run", "other", "--", "true"];
    assert!(bucket.expect(2, &other).contains("is of the run bucket"));
    // What came later is told, and what was tampered with is found.
    bucket.server.put("bucket/in/zz/new", "x");
    let told = bucket.expect(0, &["verify", "bucket"]);
    assert!(told.contains("1 are new") && told.contains("the receipt holds"), "{told}");
    let results = bucket.server.get("bucket/out/results.jsonl");
    let address = results.split('"').find(|part| part.starts_with("s3://bucket/out/stdout/"));
    let long = address.unwrap().strip_prefix("s3://").unwrap();
    let output = bucket.server.get(long);
    bucket.server.put(long, &output.replacen('x', "y", 1));
    assert!(bucket.expect(1, &["verify", "bucket"]).contains("is not what was written"));
    bucket.server.put(long, &output);
    bucket.expect(0, &["verify", "bucket"]);
    bucket.server.put("bucket/out/results.jsonl", "{}\n");
    bucket.expect(1, &["verify", "bucket"]);
    // Whatever else is in the bucket stays, and the same command begins the run again.
    bucket.server.put("bucket/out/logs/mine", "mine");
    let told = bucket.expect(0, &["gc", "--keep-days", "0"]);
    assert!(told.contains("removed s3://bucket/out/segments/"), "{told}");
    assert_eq!(bucket.server.get("bucket/out/logs/mine"), "mine");
    assert!(bucket.expect(0, &command).contains("61 keys"));
}

#[test]
fn commands_get_addresses_of_objects() {
    let (server, site) = (S3Server::start(), Site::new());
    server.put("bucket", "");
    server.put("bucket/in/a", "x");
    let bucket = Bucket { server, site };
    bucket.expect(0, &["run", "s3://bucket/in/", "--run", "named", "--", "echo", "{}"]);
    let results = bucket.site.results("named").join("results.jsonl");
    let line = std::fs::read_to_string(results).unwrap();
    assert!(line.contains(r#""stdout":"s3://bucket/in/a\n""#), "{line}");
}
