//! Placeholders inside of shell scripts.
//!
//! An item's name in the script after `sh -c` is code: a file named `; rm -rf ~` would be run.
//! The name is safe as an argument of the script, which reads it as `"$1"`. Wrappers such as `env`
//! and `timeout` need no special case: a shell is found at any position of the command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::contains_placeholder;

/// Programs that execute the text after `-c`.
const SHELLS: [&str; 14] = [
    "ash", "bash", "csh", "dash", "fish", "hush", "ksh", "ksh93", "mksh", "rbash", "sh", "tcsh",
    "yash", "zsh",
];
/// Programs that pass the text after `-c` to a shell, wherever the option is.
const CALLERS: [&str; 4] = ["flock", "runuser", "script", "su"];

/// Whether an item would become part of a script that a shell executes.
pub(super) fn is_in_script(command: &[OsString]) -> bool {
    (0..command.len()).any(|at| {
        let (before, rest) = command.split_at(at + 1);
        let name = before.last().and_then(|path| Path::new(path).file_name());
        match name.and_then(OsStr::to_str) {
            Some("fish") => is_script_of_shell(rest, true),
            Some(name) if SHELLS.contains(&name) => is_script_of_shell(rest, false),
            Some(name) if CALLERS.contains(&name) => is_value_of(rest, b'c', "--command"),
            Some("env") => is_value_of(rest, b'S', "--split-string"),
            _ => false,
        }
    })
}

/// Whether a script in the arguments of a shell contains a placeholder. A missing script counts:
/// the item, which becomes the last argument, would be the script.
fn is_script_of_shell(arguments: &[OsString], is_fish: bool) -> bool {
    let (mut expects_script, mut may_be_value) = (false, false);
    for argument in arguments {
        let text = argument.as_bytes();
        if let [b'-' | b'+', _, ..] = text {
            let is_long = text.starts_with(b"--");
            // The script may be in the same argument.
            if contains_placeholder(argument) {
                return true;
            }
            let is_cluster = !is_long && text.starts_with(b"-");
            let has = |letter| !is_long && text.contains(&letter);
            expects_script |= is_cluster && (has(b'c') || is_fish && has(b'C'));
            expects_script |= [&b"--command"[..], b"--init-command"].contains(&text);
            // `-o pipefail`, `-O extglob` and `--rcfile FILE` have a value.
            may_be_value =
                has(b'o') || has(b'O') || [&b"--rcfile"[..], b"--init-file"].contains(&text);
        } else if may_be_value {
            may_be_value = false;
        } else if !expects_script {
            return false;
        } else if contains_placeholder(argument) {
            return true;
        } else if is_fish {
            // It may have more scripts, and its other arguments are no code.
            expects_script = false;
        } else {
            return false;
        }
    }
    expects_script
}

/// Whether the value of an option contains a placeholder.
fn is_value_of(arguments: &[OsString], letter: u8, name: &str) -> bool {
    let is_option = |text: &[u8]| match text {
        [b'-', b'-', ..] => text.starts_with(name.as_bytes()),
        [b'-', ..] => text.contains(&letter),
        _ => false,
    };
    let mut is_value = false;
    arguments.iter().any(|argument| {
        let is_it = is_option(argument.as_bytes());
        let is_script = std::mem::replace(&mut is_value, is_it) || is_it;
        is_script && contains_placeholder(argument)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(command: &str) -> bool {
        // `_` stands for a space inside of an argument.
        let words = command.split(' ').map(|word| OsString::from(word.replace('_', " ")));
        is_in_script(&words.collect::<Vec<_>>())
    }

    #[test]
    fn placeholder_in_a_script_is_found() {
        for shell in SHELLS {
            assert!(refused(&format!("{shell} -c echo_{{}}")), "{shell}");
            assert!(refused(&format!("/usr/bin/{shell} -c {{}}")), "{shell}");
            assert!(refused(&format!("{shell} -c")), "{shell}: the item would be the script");
        }
        for command in [
            "sh -ec cat_{}",
            "sh -c -e cat_{}",
            "sh -c -- cat_{}",
            "bash -eo pipefail -c cat_{}",
            "bash -euxo pipefail -c cat_{} x",
            "bash --norc -c cat_{}",
            "bash --rcfile file -lc cat_{}",
            "bash -O extglob -c cat_{}",
            "zsh -oextendedglob -c cat_{}",
            "fish --command=cat_{}",
            "fish --command cat_{}",
            "fish -C cat_{} x",
            "fish -c true -c cat_{}",
            "env sh -c cat_{}",
            "env -i A=b nice -n 5 timeout 10 bash -c cat_{}",
            "sudo -u me sh -c cat_{}",
            "busybox sh -c cat_{}",
            "docker run image sh -c cat_{}",
            "env -S sh_-c_{}",
            "env -iS cat_{}",
            "env --split-string=cat_{}",
            "su me -c cat_{}",
            "flock file -c cat_{}",
        ] {
            assert!(refused(command), "{command}");
        }
    }

    #[test]
    fn placeholder_outside_of_a_script_is_allowed() {
        for command in [
            "cat {}",
            "sh -c cat_\"$1\" _ {}",
            "sh -c cat_\"$1\"",
            "bash -eo pipefail -c cat_\"$1\" _ {}",
            "timeout 5 sh -c cat_\"$1\" _ {}",
            "fish -c cat_$argv {}",
            "sh {}",
            "sh -x {}.sh",
            "sh script.sh -c {}",
            "wc -c {}",
            "env A={} cat",
            "env -i cat {}",
            "grep -c {} bash",
        ] {
            assert!(!refused(command), "{command}");
        }
    }
}
