//! Looking for secrets, as a person does it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Site, text};

/// Nobody's keys, in pieces so that nobody finds them here.
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

/// A site with files of which some hold secrets; the same secret is in `data/a` and `data/b/c`.
fn site() -> Site {
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
    let told = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {told}");
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
fn secrets_are_found_once_and_told_without_being_given_away() {
    let site = site();
    let told = site.expect(1, &["scan", "data"]);
    assert!(told.contains("a:2:7\n  b/c:1:1\n"), "{told}");
    assert!(told.contains("2 secrets in 3 places; 63 files"), "{told}");
    assert!(told.contains("1 not text"), "{told}");
    assert!(!told.contains(&secret(1)) && told.contains("AKIA\u{2026} (20 bytes)"), "{told}");
    let told = site.expect(0, &["verify", &only_run(&site)]);
    assert!(told.contains("the receipt holds"), "{told}");
    let results = fs::read_dir(site.path(".shardwright/runs")).unwrap();
    let results = results.map(|run| run.unwrap().path().join("results.jsonl"));
    let kept: String = results.map(|path| fs::read_to_string(path).unwrap()).collect();
    assert!(kept.contains("AKIA") && !kept.contains(&secret(1)), "{kept}");
    let told = site.expect(1, &["scan", "data", "--show-secrets"]);
    assert!(told.contains(&secret(1)) && told.contains(&secret(2)), "{told}");
}

#[test]
fn what_was_done_is_looked_at_again_as_it_is_now() {
    let site = site();
    site.expect(1, &["scan", "data"]);
    fs::write(site.path("data/a"), "nothing").unwrap();
    fs::remove_file(site.path("data/b/c")).unwrap();
    let told = site.expect(0, &["scan", "data"]);
    assert!(told.contains("no secrets; 62 files"), "{told}");
}

#[test]
fn reports_come_in_three_formats_and_go_where_they_are_told_to() {
    let site = site();
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
fn events_tell_findings_and_the_receipt() {
    let site = site();
    let output = site.run(&["scan", "data", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let events = lines(&output.stdout);
    let of = |name: &str| events.iter().filter(|it| it["event"] == name).count();
    assert_eq!((of("begun"), of("finding"), of("finished")), (1, 2, 1));
    let last = events.last().unwrap();
    assert_eq!((&last["scan"]["places"], &last["receipt"]["keys"]), (&3.into(), &63.into()));
    let told = site.expect(2, &["scan", "data", "--json", "--format", "sarif"]);
    assert!(told.contains("--report FILE"), "{told}");
}

#[test]
fn rules_of_ones_own_replace_or_extend_the_default() {
    let site = site();
    let rule = "[[rules]]\nid = 'number'\nregex = '''^0?17$'''\n";
    fs::write(site.path("own.toml"), rule).unwrap();
    let found = findings(&site, &["data", "--rules", "own.toml"]);
    assert_eq!(places(&found), [("00/00017".into(), 1)]);
    let extended = format!("[extend]\nuseDefault = true\n{rule}[[allowlists]]\npaths = ['^a$']");
    fs::write(site.path("own.toml"), extended).unwrap();
    let found = findings(&site, &["data", "--rules", "own.toml"]);
    let expected = [("00/00017".into(), 1), ("b/c".into(), 1), ("b/c".into(), 2)];
    assert_eq!(places(&found), expected);
    fs::write(site.path("own.toml"), "\n[[rules]]\nid = 'x'\nregex = '('\n").unwrap();
    let told = site.expect(2, &["scan", "data", "--rules", "own.toml"]);
    assert!(told.contains("own.toml:4: the pattern cannot be used"), "{told}");
    let told = site.expect(2, &["scan", "data", "--rules", "nowhere.toml"]);
    assert!(told.contains("nowhere.toml"), "{told}");
}

#[test]
fn links_are_not_followed_and_names_need_be_no_text() {
    let site = Site::new();
    fs::write(site.path("outside"), secret(4)).unwrap();
    std::os::unix::fs::symlink(site.path("outside"), site.path("data/link")).unwrap();
    std::os::unix::fs::symlink(site.path("."), site.path("data/above")).unwrap();
    let odd = site.path("data").join(OsStr::from_bytes(b"odd\xff\x1b[2J"));
    fs::write(odd, [b"\xff\xfe ", secret(5).as_bytes(), b" \xff"].concat()).unwrap();
    let found = findings(&site, &["data"]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["places"][0]["path_hex"], "6f6464ff1b5b324a");
    let told = site.expect(1, &["scan", "data"]);
    assert!(told.contains("odd\\xff\\u{1b}[2J:1:4"), "{told}");
    assert!(!told.contains('\u{1b}'));
}

#[test]
fn objects_of_a_store_are_looked_at_as_well() {
    let site = site();
    let url = format!("file://{}", site.path("data").display());
    let found = findings(&site, &[&url]);
    assert_eq!(places(&found), [("a".into(), 2), ("b/c".into(), 1), ("b/c".into(), 2)]);
}

#[test]
fn three_processes_share_a_scan_of_the_folder_that_holds_their_state() {
    let site = Site::with_files(400);
    let expected: Vec<_> = (0..40).map(|number| (format!("data/secrets/{number:02}"), 1)).collect();
    fs::create_dir_all(site.path("data/secrets")).unwrap();
    for (number, (path, _)) in expected.iter().enumerate() {
        fs::write(site.path(path), secret(number)).unwrap();
    }
    // Whoever goes into the state folder finds this.
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
fn a_scan_that_was_killed_goes_on_and_finds_each_secret_once() {
    let site = Site::with_files(1_500);
    fs::create_dir_all(site.path("data/secrets")).unwrap();
    for number in 0..30 {
        fs::write(site.path(&format!("data/secrets/{number}")), secret(number)).unwrap();
    }
    // A quick machine may be through before it is killed; then it is another run's turn.
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
    panic!("it was never killed");
}

/// Scans until it is through, and kills it at random moments before that. Says how often.
fn scan_and_kill(site: &Site, run: &str) -> u32 {
    let command = ["scan", "data", "--run", run, "--format", "jsonl", "--report", "found"];
    let mut kills = 0;
    loop {
        let mut child = site.start(&command);
        let patience =
            Duration::from_millis(if kills < 12 { fastrand::u64(20..250) } else { 60_000 });
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() && start.elapsed() < patience {
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
fn nothing_that_can_be_typed_ends_in_a_panic() {
    let site = site();
    for arguments in [
        &["scan"] as &[&str],
        &["scan", "nowhere"],
        &["scan", "data/a"],
        &["scan", "data", "--format", "xml"],
        &["scan", "data", "--report", "nowhere/x"],
        &["scan", "data", "--rules", "data"],
        &["scan", "ftp://x"],
        &["scan", ".shardwright"],
    ] {
        let output = site.run(arguments);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains("error:") && !told.contains("panicked"), "{arguments:?}: {told}");
    }
}

#[test]
fn what_would_lose_the_findings_is_refused_before_anything_is_looked_through() {
    let site = Site::with_files(2);
    fs::write(site.path("empty.toml"), "").unwrap();
    let told = site.expect(2, &["scan", "data", "--rules", "empty.toml"]);
    assert!(told.contains("there are no rules in empty.toml"), "{told}");
    for (report, why) in [("nowhere/found", "cannot be written"), ("data", "is a folder")] {
        let told = site.expect(2, &["scan", "data", "--report", report]);
        assert!(told.contains(why), "{told}");
    }
    assert!(!site.path(".shardwright").exists());
}
