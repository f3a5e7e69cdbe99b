//! The subject of a commit is `area: summary` within 72 characters.
//!
//! Only commits after `BASE` count, and only in a clone that has it: a shallow one has no history.

use std::path::Path;
use std::process::Command;

use super::Violation;

/// The last commit that is older than the rule.
const BASE: &str = "41bc033";

/// The longest subject, in characters.
const SUBJECT_CHARACTERS_MAX: usize = 72;

/// Every commit after the base whose subject breaks the rule.
pub(crate) fn check(root: &Path) -> Vec<Violation> {
    let commits = format!("{BASE}..HEAD");
    let mut git = Command::new("git");
    git.current_dir(root).args(["log", "--no-merges", "--format=%h %s", &commits]);
    match git.output() {
        Ok(output) if output.status.success() => wrong(&String::from_utf8_lossy(&output.stdout)),
        _ => Vec::new(),
    }
}

/// The violations in lines of a hash and a subject.
fn wrong(log: &str) -> Vec<Violation> {
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    let bad = commits.filter(|(_, subject)| !is_good(subject));
    let why = format!("write `area: summary` in at most {SUBJECT_CHARACTERS_MAX} characters");
    bad.map(|(hash, subject)| Violation::new(Path::new(hash), 1, subject, &*why)).collect()
}

fn is_good(subject: &str) -> bool {
    let is_of_area = |letter: char| letter.is_ascii_alphanumeric() || "-_./, ".contains(letter);
    subject.chars().count() <= SUBJECT_CHARACTERS_MAX
        && subject.split_once(": ").is_some_and(|(area, summary)| {
            !area.is_empty() && area.chars().all(is_of_area) && !summary.trim().is_empty()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_names_its_area_and_is_short() {
        let long = format!("a: {}", "b".repeat(70));
        assert!(is_good(&long[..72]) && !is_good(&long));
        assert!(is_good("runs, engine: resend a commit"));
        for bad in ["Resend a commit", "runs:", ": resend", "runs:resend", "`runs`: resend"] {
            assert!(!is_good(bad), "{bad}");
        }
    }

    #[test]
    fn a_violation_names_the_commit() {
        let found = wrong("1a2b3c4 Resend\n5d6e7f8 store: retry\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("1a2b3c4:1: Resend — write `area: "));
    }

    #[test]
    fn a_folder_without_history_is_in_order() {
        assert!(check(Path::new("/")).is_empty());
    }
}
