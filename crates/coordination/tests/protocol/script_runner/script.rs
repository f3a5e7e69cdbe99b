//! A script file: runs it from top to bottom, then compares or rewrites it.

use std::path::PathBuf;

use super::diff::diff;
use super::literal::number;
use super::world::{Answer, World};

const ANSWER_INDENT: &str = "        ";

/// The folder of the scripts.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join("scripts")
}

/// Runs the script of that name and compares its answers, or writes them into the file.
pub(crate) fn check(name: &str) {
    let path = folder().join(name).with_extension("txt");
    let written = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(written.starts_with("# "), "{name} does not start with a description");
    let actual = run(name, &written);
    if std::env::var_os("UPDATE_SCRIPTS").is_some_and(|value| value == "1") {
        std::fs::write(&path, actual).unwrap_or_else(|error| panic!("{name}: {error}"));
    } else if written != actual {
        let difference = diff(&written, &actual);
        panic!("{name}: `-` is the recorded answer, `+` the actual one\n\n{difference}");
    }
}

/// The script with the answers that its commands get now.
fn run(name: &str, written: &str) -> String {
    let mut world = World::new();
    let mut actual = String::new();
    for (number, line) in (1..).zip(written.lines()) {
        if line.starts_with(' ') {
            continue;
        }
        actual.push_str(line.trim_end());
        actual.push('\n');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let answer = answer(&mut world, line)
            .unwrap_or_else(|mistake| panic!("{name}, line {number}: {mistake}"));
        for text in answer {
            actual.push_str(ANSWER_INDENT);
            actual.push_str(&text);
            actual.push('\n');
        }
    }
    actual
}

fn answer(world: &mut World, line: &str) -> Answer {
    let Some(repeated) = line.strip_prefix("repeat ") else {
        return world.execute(line);
    };
    let (range, command) =
        repeated.trim_start().split_once(' ').ok_or("`repeat` needs a command")?;
    let (from, to) = range.split_once("..").ok_or("`repeat` needs a range of numbers")?;
    let (from, to) = (number(from)?, number(to)?);
    let mut numbers: Vec<u64> = (from.min(to)..=from.max(to)).collect();
    if from > to {
        numbers.reverse();
    }
    let mut counted: Vec<(u64, String)> = Vec::new();
    for n in numbers {
        let next = format!("{:04}", n + 1);
        let command = command.replace("{n}", &format!("{n:04}")).replace("{next}", &next);
        let answer = in_short(&world.execute(&command)?.join("; "));
        match counted.last_mut() {
            Some((count, last)) if *last == answer => *count += 1,
            _ => counted.push((1, answer)),
        }
    }
    Ok(counted.into_iter().map(|(count, answer)| format!("{count} x {answer}")).collect())
}

/// A refusal in full. Of any other answer only the first word, because the rest differs each
/// time.
fn in_short(answer: &str) -> String {
    let is_word = |letter: char| letter.is_ascii_alphabetic();
    match answer.split_once(|letter| !is_word(letter)) {
        Some((kind, _)) if kind != "refused" => kind.to_owned(),
        _ => answer.to_owned(),
    }
}
