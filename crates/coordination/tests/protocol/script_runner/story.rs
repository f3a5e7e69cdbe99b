//! A story as a file: played from top to bottom, compared or rewritten.

use std::path::PathBuf;

use super::diff::diff;
use super::literal::number;
use super::parse::parse;
use super::world::{Answer, World};

const ANSWER_INDENT: &str = "        ";

/// Where the stories are.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join("scripts")
}

/// Plays the story of that name and compares its answers, or writes them into it.
pub(crate) fn check(name: &str) {
    let path = folder().join(name).with_extension("txt");
    let written = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(written.starts_with("# "), "{name} does not say what it shows");
    let played = play(name, &written);
    if std::env::var_os("UPDATE_SCRIPTS").is_some_and(|value| value == "1") {
        std::fs::write(&path, played).unwrap_or_else(|error| panic!("{name}: {error}"));
    } else if written != played {
        let difference = diff(&written, &played);
        panic!("{name}: `-` is what the story says, `+` what was answered\n\n{difference}");
    }
}

/// The story with the answers that its commands get now.
fn play(name: &str, written: &str) -> String {
    let mut world = World::new();
    let mut played = String::new();
    for (number, line) in (1..).zip(written.lines()) {
        if line.starts_with(' ') {
            continue;
        }
        played.push_str(line.trim_end());
        played.push('\n');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let answer = answer(&mut world, line)
            .unwrap_or_else(|mistake| panic!("{name}, line {number}: {mistake}"));
        for told in answer {
            played.push_str(ANSWER_INDENT);
            played.push_str(&told);
            played.push('\n');
        }
    }
    played
}

fn answer(world: &mut World, line: &str) -> Answer {
    let Some(repeated) = line.strip_prefix("repeat ") else {
        return world.execute(&parse(line)?);
    };
    let (range, command) = repeated.trim_start().split_once(' ').ok_or("nothing to repeat")?;
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
        let told = in_short(&world.execute(&parse(&command)?)?.join("; "));
        match counted.last_mut() {
            Some((count, last)) if *last == told => *count += 1,
            _ => counted.push((1, told)),
        }
    }
    Ok(counted.into_iter().map(|(count, told)| format!("{count} x {told}")).collect())
}

/// A refusal as it is, and of anything else only what kind of answer it is: the rest differs each
/// time.
fn in_short(answer: &str) -> String {
    let is_word = |letter: char| letter.is_ascii_alphabetic();
    match answer.split_once(|letter| !is_word(letter)) {
        Some((kind, _)) if kind != "refused" => kind.to_owned(),
        _ => answer.to_owned(),
    }
}
