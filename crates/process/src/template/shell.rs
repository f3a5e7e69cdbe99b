//! Placeholders inside of shell scripts.
//!
//! An item's name in the script after `sh -c` is code: a file named `; rm -rf ~` would be run.
//! The name is safe as an argument of the script, which reads it as `"$1"`. Wrappers such as `env`
//! and `timeout` need no special case: a shell is found at any position of the command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::argument::Lexicon;

/// Programs that execute the text after `-c`. A version may follow the name, as in `zsh-5.9`.
const SHELLS: [&str; 18] = [
    "ash", "bash", "csh", "dash", "elvish", "hush", "ksh", "lksh", "mksh", "oksh", "osh", "posh",
    "rbash", "sh", "tcsh", "xonsh", "yash", "zsh",
];
/// Programs that pass the text after these options to a shell.
const CALLERS: [(&str, &[u8], &[&str]); 8] = [
    ("env", b"S", &["--split-string"]),
    ("fish", b"cC", &["--command", "--init-command"]),
    ("flock", b"c", &["--command"]),
    ("nu", b"ce", &["--commands", "--execute"]),
    ("runuser", b"c", &["--command", "--session-command"]),
    ("script", b"c", &["--command"]),
    ("sg", b"c", &[]),
    ("su", b"c", &["--command", "--session-command"]),
];
/// Callers whose own options end before another program: after how many operands, and which
/// options have a value, which is no operand. Options of the others may be anywhere.
const WRAPPERS: [(&str, usize, &[u8], &[&str]); 2] = [
    ("env", 0, b"CPSau", &["--argv0", "--chdir", "--split-string", "--unset"]),
    ("flock", 1, b"Ecw", &["--command", "--conflict-exit-code", "--timeout", "--wait"]),
];

/// Whether an item would become part of a script that a shell executes.
pub(super) fn is_in_script(command: &[OsString], lexicon: &Lexicon) -> bool {
    (0..command.len()).any(|at| {
        let (before, rest) = command.split_at(at + 1);
        let name = before.last().and_then(|path| Path::new(path).file_name());
        let Some(name) = name.and_then(OsStr::to_str) else { return false };
        let name = name.trim_end_matches(|end: char| end.is_ascii_digit() || "-.".contains(end));
        if SHELLS.contains(&name) {
            return is_script_of_shell(rest, lexicon);
        }
        let caller = CALLERS.iter().find(|(caller, ..)| *caller == name);
        let own = own_arguments(name, rest);
        caller.is_some_and(|(_, letters, names)| is_value_of(own, letters, names, lexicon))
    })
}

/// Whether a script in the arguments of a shell contains a placeholder. A missing script counts:
/// the item, which becomes the last argument, would be the script.
fn is_script_of_shell(arguments: &[OsString], lexicon: &Lexicon) -> bool {
    let contains_placeholder = |argument: &OsString| lexicon.is_in(argument.as_bytes());
    let (mut expects_script, mut may_be_value) = (false, false);
    for argument in arguments {
        let text = argument.as_bytes();
        if let [sign @ (b'-' | b'+'), _, ..] = text {
            // The script may be in the same argument.
            if contains_placeholder(argument) {
                return true;
            }
            let is_long = text.starts_with(b"--");
            let has = |letter| !is_long && text.contains(&letter);
            expects_script |= *sign == b'-' && has(b'c');
            expects_script |= text == b"--command";
            // `-o pipefail`, `-O extglob` and `--rcfile FILE` have a value.
            may_be_value =
                has(b'o') || has(b'O') || [&b"--rcfile"[..], b"--init-file"].contains(&text);
        } else if !expects_script && !std::mem::take(&mut may_be_value) {
            // The file of a script. What follows are its arguments.
            return false;
        } else if expects_script && contains_placeholder(argument) {
            return true;
        } else if expects_script && !std::mem::take(&mut may_be_value) {
            return false;
        }
    }
    expects_script
}

/// The arguments before the program that a wrapper starts. An assignment, as in `env A=b`, is no
/// operand.
fn own_arguments<'a>(name: &str, arguments: &'a [OsString]) -> &'a [OsString] {
    let wrapper = WRAPPERS.iter().find(|(wrapper, ..)| *wrapper == name);
    let Some((_, operands, letters, names)) = wrapper else { return arguments };
    let (mut seen, mut is_value) = (0, false);
    let end = arguments.iter().position(|argument| {
        let text = argument.as_bytes();
        // A value may be in the same argument, as in `-w5` and `--wait=5`.
        let is_last =
            text.last().is_some_and(|last| text.starts_with(b"--") || letters.contains(last));
        let expects = is_last && !text.contains(&b'=') && is_option(text, letters, names);
        let is_operand = !std::mem::replace(&mut is_value, expects)
            && !text.starts_with(b"-")
            && !text.contains(&b'=');
        seen += usize::from(is_operand);
        seen > *operands
    });
    arguments.get(..end.unwrap_or(arguments.len())).unwrap_or_default()
}

/// Whether an argument contains one of these options. Long ones may be abbreviated.
fn is_option(text: &[u8], letters: &[u8], names: &[&str]) -> bool {
    match text {
        [b'-', b'-', _, ..] => {
            let given = text.split(|byte| *byte == b'=').next().unwrap_or_default();
            names.iter().any(|name| name.as_bytes().starts_with(given))
        }
        [b'-', rest @ ..] => rest.iter().any(|letter| letters.contains(letter)),
        _ => false,
    }
}

/// Whether the value of an option contains a placeholder, or is missing: the item would be the
/// value.
fn is_value_of(arguments: &[OsString], letters: &[u8], names: &[&str], lexicon: &Lexicon) -> bool {
    let mut is_value = false;
    let is_found = arguments.iter().any(|argument| {
        let is_it = is_option(argument.as_bytes(), letters, names);
        let is_script = std::mem::replace(&mut is_value, is_it) || is_it;
        is_script && lexicon.is_in(argument.as_bytes())
    });
    is_found || is_value && arguments.last().is_some_and(|last| !last.as_bytes().contains(&b'='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placeholders::Placeholders;

    fn refused(command: &str) -> bool {
        refused_with(command, &Placeholders::default())
    }

    fn refused_with(command: &str, placeholders: &Placeholders) -> bool {
        // `_` stands for a space inside of an argument.
        let words = command.split(' ').map(|word| OsString::from(word.replace('_', " ")));
        is_in_script(&words.collect::<Vec<_>>(), &Lexicon::new(placeholders).unwrap())
    }

    #[test]
    fn placeholder_in_a_script_is_found() {
        for shell in SHELLS {
            assert!(refused(&format!("{shell} -c echo_{{}}")), "{shell}");
            assert!(refused(&format!("/usr/bin/{shell} -c {{}}")), "{shell}");
            assert!(refused(&format!("{shell} -c")), "{shell}: the item would be the script");
        }
        for version in ["bash5", "bash-5.2", "/opt/zsh-5.9", "ksh93", "fish3"] {
            assert!(refused(&format!("{version} -c cat_{{}}")), "{version}");
        }
        for command in [
            "sh -ec cat_{}",
            "sh -c -e cat_{}",
            "sh -c -- cat_{}",
            "bash -eo pipefail -c cat_{}",
            "bash -euxo pipefail -c cat_{} x",
            "bash -lc cat_{}",
            "bash -o pipefail -c cat_{}",
            "bash -c -o pipefail cat_{} x",
            "zsh -c -oerrexit cat_{} x",
            "bash --norc -c cat_{}",
            "bash --rcfile file -lc cat_{}",
            "bash -O extglob -c cat_{}",
            "zsh -oextendedglob -c cat_{}",
            "fish --command=cat_{}",
            "fish --command cat_{}",
            "fish -C cat_{} x",
            "fish -c true -c cat_{}",
            "fish --profile file -c cat_{}",
            "fish --comm cat_{}",
            "fish -c",
            "env sh -c cat_{}",
            "env -i A=b nice -n 5 timeout 10 bash -c cat_{}",
            "sudo -u me sh -c cat_{}",
            "busybox sh -c cat_{}",
            "docker run image sh -c cat_{}",
            "env -S sh_-c_{}",
            "env -iS cat_{}",
            "env --split-string=cat_{}",
            "env --split=cat_{}",
            "env --s cat_{}",
            "env -S",
            "su me -c cat_{}",
            "su me -c",
            "su me --session-command=cat_{}",
            "runuser me --comm cat_{}",
            "env -u HOME -S cat_{}",
            "env -C folder --unset HOME A=b --split-string cat_{}",
            "flock file -c cat_{}",
            "flock -c cat_{} file",
            "flock -n -w 5 --conflict-exit-code 3 file -c cat_{}",
            "flock --wait=5 -E1 file --command cat_{}",
            "flock file -c",
            "nu -c cat_{}",
            "nu --commands cat_{}",
            "nu --commands=cat_{}",
            "nu -e cat_{}",
            "nu --execute cat_{}",
            "nu -c",
            "sg group -c cat_{}",
            "sg - group -c cat_{}",
        ] {
            assert!(refused(command), "{command}");
        }
    }

    #[test]
    fn every_placeholder_is_found_in_a_script() {
        for placeholder in ["{}", "{.}", "{/}", "{//}", "{/.}", "{%}", "{#}"] {
            assert!(refused(&format!("sh -c cat_{placeholder}")), "{placeholder}");
            assert!(refused(&format!("su me -c cat_{placeholder}")), "{placeholder}");
            let with_item = Placeholders::with_item(b"ITEM");
            let is_refused = refused_with(&format!("sh -c cat_{placeholder}"), &with_item);
            assert_eq!(is_refused, placeholder != "{}", "{placeholder}");
            assert!(refused_with("sh -c cat_ITEM", &with_item));
            let is_refused =
                refused_with(&format!("sh -c cat_{placeholder}"), &Placeholders::item_only());
            assert_eq!(is_refused, placeholder == "{}", "{placeholder}");
        }
    }

    #[test]
    fn shell_is_found_after_any_wrapper() {
        for wrapper in [
            "env",
            "env -i -u HOME A=b B=c",
            "nice -n 5",
            "timeout 5s",
            "timeout -k 1 --signal=KILL 5s",
            "nohup",
            "setsid -w",
            "stdbuf -o L",
            "sudo -u me A=b",
            "doas",
            "xargs -0 -n 1",
            "ionice -c 3",
            "chrt -f 1",
            "taskset -c 0",
            "time -p",
            "strace -f",
            "unshare -r",
            "chroot root",
            "find . -exec",
        ] {
            assert!(refused(&format!("{wrapper} sh -c cat_{{}}")), "{wrapper}");
            assert!(refused(&format!("{wrapper} /bin/bash -ec cat_{{}} x")), "{wrapper}");
            assert!(!refused(&format!("{wrapper} sh -c cat_\"$1\" _ {{}}")), "{wrapper}");
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
            "bash -o pipefail script.sh {}",
            "su me -c true",
            "flock file cat {}",
            "sh {}",
            "sh -x {}.sh",
            "sh script.sh -c {}",
            "wc -c {}",
            "env A={} cat",
            "env -i cat {}",
            "env A=b curl -sS {}",
            "env A=b gcc -S {}",
            "env -u HOME A=b gcc -S {}",
            "flock lock gcc -c {}",
            "flock -w 5 lock gcc -c {}",
            "flock lock tar -czf {}.tgz x",
            "nu script.nu {}",
            "grep -c {} bash",
        ] {
            assert!(!refused(command), "{command}");
        }
    }
}
