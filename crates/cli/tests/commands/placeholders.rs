//! What stands for items in a command.

use std::fs;

use crate::support::{Site, outputs};

/// Runs a command over `data`, and returns its outputs in key order.
fn outputs_of(site: &Site, flags: &[&str], command: &[&str]) -> Vec<String> {
    site.expect(0, &[&["run", "data", "--run", "it", "--fresh"], flags, &["--"], command].concat());
    let outputs = outputs(&site.results("it").join("results.jsonl"));
    outputs.into_iter().map(|(_, stdout)| stdout).collect()
}

fn site(files: &[&str]) -> Site {
    let site = Site::new();
    for file in files {
        let path = site.path("data").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "one two\n").unwrap();
    }
    site
}

#[test]
fn command_gets_the_parts_of_a_path() {
    let site = site(&["a.b/c.tar.gz", "-x.y"]);
    let command = ["echo", "{}", "{.}", "{/}", "{//}", "{/.}"];
    let expected = [
        "data/-x.y data/-x ./-x.y data ./-x\n",
        "data/a.b/c.tar.gz data/a.b/c.tar c.tar.gz data/a.b c.tar\n",
    ];
    assert_eq!(outputs_of(&site, &[], &command), expected);
    let in_batch = ["echo", "{/.}", "-", "out/{/}"];
    let outputs = outputs_of(&site, &["--batch", "2", "--shards", "1"], &in_batch).concat();
    assert_eq!(outputs, "./-x c.tar - out/-x.y out/c.tar.gz\n");
}

#[test]
fn braces_of_other_programs_pass_untouched() {
    let site = site(&["a"]);
    assert_eq!(outputs_of(&site, &[], &["awk", "{print $2}"]), ["two\n"]);
    assert_eq!(outputs_of(&site, &["-I", "FILE"], &["echo", "{}", "<FILE>"]), ["{} <data/a>\n"]);
}

#[test]
fn commands_that_run_together_have_different_slots() {
    let site = Site::with_files(40);
    // Fails if another command with the same number runs.
    let script = "mkdir \"slot-$1\" && sleep 0.01 && rmdir \"slot-$1\" && echo \"$1\"";
    let flags = ["-j", "2", "--in-flight", "2", "--retries", "0"];
    let slots = outputs_of(&site, &flags, &["sh", "-c", script, "sh", "{%}"]);
    assert_eq!(slots.len(), 40);
    assert!(slots.iter().all(|slot| ["1\n", "2\n", "3\n", "4\n"].contains(&slot.as_str())));
}

#[test]
fn row_numbers_are_for_rows() {
    let site = Site::with_files(1);
    fs::write(site.path("rows"), "a\nb\n").unwrap();
    site.expect(0, &["run", "--lines", "rows", "--run", "rows", "--", "echo", "{#}", "{}"]);
    let outputs = site.field_values("rows", "stdout");
    assert_eq!(outputs, [r#""1 a\n""#, r#""2 b\n""#]);
    let folder = site.path("data").display().to_string();
    for source in ["data", &format!("file://{folder}")] {
        let printed = site.expect(2, &["run", source, "--run", "no", "--", "echo", "{#}"]);
        assert!(printed.contains("{#} stands for the row number"), "{printed}");
    }
    assert!(!site.results("no").exists());
}

#[test]
fn refused_placeholders_name_the_remedy() {
    let site = Site::with_files(1);
    for (arguments, remedy) in [
        (&["--", "{/.}"][..], "the program must not contain {/.}"),
        (&["-I", "ls", "--", "ls"], "the program must not contain ls"),
        (&["--", "sh", "-c", "cat {//}/x"], "`sh -c '… \"$1\"' _ {//}`"),
        (&["-I", "F", "--", "sh", "-c", "cat F"], "`sh -c '… \"$1\"' _ F`"),
        (&["-I", "", "--", "cat"], "it must not be empty"),
        (&["--persistent", "--", "cat", "{.}"], "leave out the placeholders of items"),
    ] {
        let printed = site.expect(2, &[&["run", "data"], arguments].concat());
        assert!(printed.contains(remedy), "{arguments:?}: {printed}");
    }
    assert!(!site.path(".shardwright").exists());
}

#[test]
fn shell_line_gets_each_item_as_one_word() {
    let names =
        ["it's \"$(touch pwned)\".x", "two  words", "-n", "a\nb", "; touch pwned", "*", "\\"];
    let site = site(&names);
    let mut sorted = names.map(|name| format!("data/{name}"));
    sorted.sort_unstable();
    let run = |name: &str, flags: &[&str], line: &str| {
        let arguments = [&["run", "data", "--run", name], flags, &["--shell", line]].concat();
        site.expect(0, &arguments);
        assert!(site.expect(0, &["verify", name]).contains("the receipt holds"));
        outputs(&site.results(name).join("results.jsonl"))
    };
    let each = run("each", &[], "printf '%s|' {} && wc -l <{} 2>>log | tr -d ' \\n'");
    let each: Vec<String> = each.into_iter().map(|(_, stdout)| stdout).collect();
    assert_eq!(each, sorted.clone().map(|item| format!("{item}|1")));
    fs::create_dir(site.path("out")).unwrap();
    run("files", &[], "cat {} > out/{/.}.txt");
    assert!(site.path("out/it's \"$(touch pwned)\".txt").exists());
    assert_eq!(fs::read_dir(site.path("out")).unwrap().count(), names.len());
    let batch = run("batch", &["--batch", "9", "--shards", "1"], "printf '%s|' {} | cat");
    assert_eq!(batch[0].1, sorted.map(|item| format!("{item}|")).concat());
    let counted =
        run("counted", &["--batch", "9", "--shards", "1", "--null"], "tr '\\0' , | wc -l");
    assert_eq!(counted[0].1.trim(), "1");
    assert!(!site.path("pwned").exists());
}

#[test]
fn shell_line_is_stored_and_compared() {
    let site = Site::with_files(3);
    let run = |code, flags: &[&str]| {
        site.expect(code, &[&["run", "data", "--run", "it"], flags].concat())
    };
    run(3, &["--retries", "0", "--shell", "grep -q 1 {} && echo {/}"]);
    assert_eq!(site.receipt("it")["shell"], true);
    let printed = run(2, &["--", "grep", "-q", "1"]);
    assert!(printed.contains("(`--shell 'grep -q 1 {} && echo {/}'`)"), "{printed}");
    run(2, &["-I", "X", "--shell", "grep -q 1 {} && echo {/}"]);
    let printed = site.expect(2, &["retry", "--parked", "it", "--shell", "true {}"]);
    assert!(printed.contains("run it runs `--shell 'grep -q 1 {} && echo {/}'`"), "{printed}");
    for number in [0, 2] {
        fs::write(site.path(&format!("data/{number:02}/{number:05}")), "1").unwrap();
    }
    site.expect(0, &["retry", "--parked", "it", "--shell", "grep -q 1 {} && echo {/}"]);
    assert_eq!(site.keys("it").len(), 3);
}

#[test]
fn refused_shell_lines_name_the_remedy() {
    let site = Site::with_files(1);
    for (arguments, remedy) in [
        (&["--shell", "echo \"{}\""][..], "{} is inside quotes; leave the quotes out"),
        (&["--shell", "echo `cat {}`"], "write $(… {} …)"),
        (&["--shell", "{} x"], "the program must not contain {}"),
        (&["--shell", "sh -c {}"], "a shell would execute the text of {}"),
        (&["--shell", "ls"], "write {} where the item belongs"),
        (&["--shell", " "], "there is no command to run"),
        (&["--batch", "2", "--shell", "cat >{}"], "leave out --batch"),
        (&["--persistent", "--shell", "exec x {}"], "leave out the placeholders of items"),
        (&["--shell", "cat {}", "--", "cat"], "cannot be used with"),
    ] {
        let printed = site.expect(2, &[&["run", "data"], arguments].concat());
        assert!(printed.contains(remedy), "{arguments:?}: {printed}");
    }
    assert!(!site.path(".shardwright").exists());
}
