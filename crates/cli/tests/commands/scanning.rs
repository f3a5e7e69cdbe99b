//! `shardwright scan`: findings, reports, rules, resuming and errors.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Site, text};

/// An invalid access key. It is assembled, so that scanners do not find it in this file.
fn secret(number: usize) -> String {
    let letters = b"QWERTYUPASDFGHJKLZXCVBNM234567";
    let mut state = number as u64 + 1;
    let mut letter = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(letters[(state >> 33) as usize % letters.len()])
    };
    format!("AK{}{}", "IA", (0..16).map(|_| letter()).collect::<String>())
}

/// A site with secrets in three files. `data/a` and `data/b/c` have one in common.
fn site_with_secrets() -> Site {
    let site = Site::with_files(60);
    fs::create_dir_all(site.path("data/b")).unwrap();
    fs::write(site.path("data/a"), format!("first line\nkey = {}\n", secret(1))).unwrap();
    fs::write(site.path("data/b/c"), format!("{}\n{}\n", secret(1), secret(2))).unwrap();
    fs::write(site.path("data/b/binary"), format!("\0{}", secret(3))).unwrap();
    site
}

/// The findings of a scan with `--format jsonl`.
fn findings(site: &Site, arguments: &[&str]) -> Vec<Value> {
    let output = site.run(&[&["scan"], arguments, &["--format", "jsonl"]].concat());
    let printed = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {printed}");
    lines(&output.stdout)
}

fn lines(bytes: &[u8]) -> Vec<Value> {
    text(bytes).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn places(findings: &[Value]) -> Vec<(String, u64)> {
    let places = findings.iter().flat_map(|finding| finding["places"].as_array().unwrap());
    let place = |place: &Value| {
        (place["path"].as_str().unwrap().to_owned(), place["line"].as_u64().unwrap())
    };
    places.map(place).collect()
}

fn only_run(site: &Site) -> String {
    let runs = site.expect(0, &["runs", "--json"]);
    let run: Value = serde_json::from_str(runs.lines().next().unwrap()).unwrap();
    run["name"].as_str().unwrap().to_owned()
}

#[test]
fn secrets_are_reported_once_and_redacted() {
    let site = site_with_secrets();
    let printed = site.expect(1, &["scan", "data"]);
    assert!(printed.contains("a:2:7\n  b/c:1:1\n"), "{printed}");
    assert!(printed.contains("2 secrets in 3 places; 63 files"), "{printed}");
    assert!(printed.contains("1 binary"), "{printed}");
    assert!(
        !printed.contains(&secret(1)) && printed.contains("AKIA\u{2026} (20 bytes)"),
        "{printed}"
    );
    let printed = site.expect(0, &["verify", &only_run(&site)]);
    assert!(printed.contains("the receipt holds"), "{printed}");
    let results = fs::read_dir(site.path(".shardwright/runs")).unwrap();
    let results = results.map(|run| run.unwrap().path().join("results.jsonl"));
    let stored: String = results.map(|path| fs::read_to_string(path).unwrap()).collect();
    assert!(stored.contains("AKIA") && !stored.contains(&secret(1)), "{stored}");
    let printed = site.expect(1, &["scan", "data", "--show-secrets"]);
    assert!(printed.contains(&secret(1)) && printed.contains(&secret(2)), "{printed}");
}

#[test]
fn finished_scan_is_repeated_on_the_current_files() {
    let site = site_with_secrets();
    site.expect(1, &["scan", "data"]);
    fs::write(site.path("data/a"), "nothing").unwrap();
    fs::remove_file(site.path("data/b/c")).unwrap();
    let printed = site.expect(0, &["scan", "data"]);
    assert!(printed.contains("no secrets; 62 files"), "{printed}");
}

#[test]
fn report_file_and_format_are_configurable() {
    let site = site_with_secrets();
    let found = findings(&site, &["data"]);
    assert_eq!(found.len(), 2);
    assert_eq!(places(&found), [("a".into(), 2), ("b/c".into(), 1), ("b/c".into(), 2)]);
    site.expect(1, &["scan", "data", "--format", "sarif", "--report", "found.sarif"]);
    let sarif = fs::read(site.path("found.sarif")).unwrap();
    let sarif: Value = serde_json::from_slice(&sarif).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    assert_eq!(run["results"].as_array().unwrap().len(), 2);
    assert_eq!(run["results"][0]["locations"].as_array().unwrap().len(), 2);
    let base = run["originalUriBaseIds"]["SOURCE"]["uri"].as_str().unwrap();
    assert!(base.starts_with("file:///") && base.ends_with("/data/"), "{base}");
}

#[test]
fn json_events_contain_findings_and_the_receipt() {
    let site = site_with_secrets();
    let output = site.run(&["scan", "data", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let events = lines(&output.stdout);
    let count = |name: &str| events.iter().filter(|it| it["event"] == name).count();
    assert_eq!((count("begun"), count("finding"), count("finished")), (1, 2, 1));
    let last = events.last().unwrap();
    assert_eq!((&last["scan"]["places"], &last["receipt"]["keys"]), (&3.into(), &63.into()));
    let printed = site.expect(2, &["scan", "data", "--json", "--format", "sarif"]);
    assert!(printed.contains("--report FILE"), "{printed}");
}

#[test]
fn rule_file_replaces_or_extends_the_built_in_rules() {
    let site = site_with_secrets();
    let rule = "[[rules]]\nid = 'number'\nregex = '''^0?17$'''\n";
    fs::write(site.path("custom.toml"), rule).unwrap();
    let found = findings(&site, &["data", "--rules", "custom.toml"]);
    assert_eq!(places(&found), [("00/00017".into(), 1)]);
    let extended = format!("[extend]\nuseDefault = true\n{rule}[[allowlists]]\npaths = ['^a$']");
    fs::write(site.path("custom.toml"), extended).unwrap();
    let found = findings(&site, &["data", "--rules", "custom.toml"]);
    let expected = [("00/00017".into(), 1), ("b/c".into(), 1), ("b/c".into(), 2)];
    assert_eq!(places(&found), expected);
    fs::write(site.path("custom.toml"), "\n[[rules]]\nid = 'x'\nregex = '('\n").unwrap();
    let printed = site.expect(2, &["scan", "data", "--rules", "custom.toml"]);
    assert!(printed.contains("custom.toml:4: the pattern cannot be used"), "{printed}");
    let printed = site.expect(2, &["scan", "data", "--rules", "nowhere.toml"]);
    assert!(printed.contains("nowhere.toml"), "{printed}");
}

#[test]
fn symlinks_are_skipped_and_names_need_not_be_utf8() {
    let site = Site::new();
    fs::write(site.path("outside"), secret(4)).unwrap();
    std::os::unix::fs::symlink(site.path("outside"), site.path("data/link")).unwrap();
    std::os::unix::fs::symlink(site.path("."), site.path("data/above")).unwrap();
    let odd = site.path("data").join(OsStr::from_bytes(b"odd\xff\x1b[2J"));
    fs::write(odd, [b"\xff\xfe ", secret(5).as_bytes(), b" \xff"].concat()).unwrap();
    let found = findings(&site, &["data"]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["places"][0]["path_hex"], "6f6464ff1b5b324a");
    let printed = site.expect(1, &["scan", "data"]);
    assert!(printed.contains("odd\\xff\\u{1b}[2J:1:4"), "{printed}");
    assert!(!printed.contains('\u{1b}'));
}

#[test]
fn objects_of_a_store_are_scanned() {
    let site = site_with_secrets();
    let url = format!("file://{}", site.path("data").display());
    let found = findings(&site, &[&url]);
    assert_eq!(places(&found), [("a".into(), 2), ("b/c".into(), 1), ("b/c".into(), 2)]);
}

#[test]
fn three_processes_share_a_scan_and_skip_the_state_folder() {
    let site = Site::with_files(400);
    let expected: Vec<_> = (0..40).map(|number| (format!("data/secrets/{number:02}"), 1)).collect();
    fs::create_dir_all(site.path("data/secrets")).unwrap();
    for (number, (path, _)) in expected.iter().enumerate() {
        fs::write(site.path(path), secret(number)).unwrap();
    }
    // A scan that does not skip the state folder finds this secret.
    fs::create_dir_all(site.path(".shardwright/kept")).unwrap();
    fs::write(site.path(".shardwright/kept/secret"), secret(99)).unwrap();
    let children: Vec<_> = (0..3)
        .map(|_| {
            let mut command = site.command(&["scan", ".", "--format", "jsonl"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        let mut found = places(&lines(&output.stdout));
        found.sort();
        assert_eq!(found, expected);
    }
    let name = only_run(&site);
    assert!(site.expect(0, &["verify", &name]).contains("the receipt holds"));
    let keys = site.keys(&name);
    assert_eq!(keys.len(), 440);
    assert!(keys.iter().all(|key| !key.contains("shardwright")));
}

#[test]
fn killed_scan_resumes_and_reports_each_secret_once() {
    let site = Site::with_files(1_500);
    fs::create_dir_all(site.path("data/secrets")).unwrap();
    for number in 0..30 {
        fs::write(site.path(&format!("data/secrets/{number}")), secret(number)).unwrap();
    }
    // A fast machine may finish a scan before the first kill. Then another run is tried.
    for round in 0..40 {
        let run = format!("killed-{round}");
        let kills = scan_and_kill(&site, &run);
        let found = lines(&fs::read(site.path("found")).unwrap());
        assert_eq!((found.len(), places(&found).len()), (30, 30));
        assert!(site.expect(0, &["verify", &run]).contains("the receipt holds"));
        assert_eq!(site.keys(&run).len(), 1_530);
        if kills > 0 {
            return;
        }
    }
    panic!("no scan was killed before it finished");
}

/// Scans to the end, and kills the scan at random moments before. Returns the number of kills.
fn scan_and_kill(site: &Site, run: &str) -> u32 {
    let command = ["scan", "data", "--run", run, "--format", "jsonl", "--report", "found"];
    let mut kills = 0;
    loop {
        let mut child = site.start(&command);
        let timeout =
            Duration::from_millis(if kills < 12 { fastrand::u64(20..250) } else { 60_000 });
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() && start.elapsed() < timeout {
            std::thread::sleep(Duration::from_millis(1));
        }
        if child.try_wait().unwrap().is_some() {
            return kills;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
}

#[test]
fn invalid_scan_arguments_are_errors_and_not_panics() {
    let site = site_with_secrets();
    for arguments in [
        &["scan"] as &[&str],
        &["scan", "nowhere"],
        &["scan", "data", "--format", "xml"],
        &["scan", "data", "--report", "nowhere/x"],
        &["scan", "data", "--rules", "data"],
        &["scan", "ftp://x"],
        &["scan", ".shardwright"],
    ] {
        let output = site.run(arguments);
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {printed}");
        assert!(
            printed.contains("error:") && !printed.contains("panicked"),
            "{arguments:?}: {printed}"
        );
    }
}

#[test]
fn unusable_rules_or_report_file_are_rejected_before_the_scan() {
    let site = Site::with_files(2);
    fs::write(site.path("empty.toml"), "").unwrap();
    let printed = site.expect(2, &["scan", "data", "--rules", "empty.toml"]);
    assert!(printed.contains("there are no rules in empty.toml"), "{printed}");
    for (report, why) in [("nowhere/found", "cannot write --report"), ("data", "is a folder")] {
        let printed = site.expect(2, &["scan", "data", "--report", report]);
        assert!(printed.contains(why), "{printed}");
    }
    assert!(!site.path(".shardwright").exists());
}
