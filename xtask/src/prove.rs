//! `cargo xtask prove`: the checks of `cargo xtask test` in larger quantity.
//!
//! It adds quantity, never a kind: everything that it can find, the test command can find in
//! principle. So each row of the table names its twin, a smaller test or step.

use std::fmt;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use cargo_metadata::Metadata;

use crate::steps::{self, Action, Step};
use crate::sweep::Sweep;
use crate::workspace;

/// Worlds of each kind, if time is not limited.
const SEEDS: u64 = 20_000;
/// The seeds below are those of the tests.
const FIRST_SEED: u64 = 1_000;
/// Minutes of chaos, if time is not limited.
const CHAOS_MINUTES: u64 = 30;
/// The workspace of fuzz targets, with the compiler flags of libFuzzer.
const FUZZ_FLAGS: &str = "--config fuzz/coverage.toml --manifest-path fuzz/Cargo.toml";
/// How large an input may be, and how many seconds a target gets.
const FUZZ_LIMITS: &str = "-max_len=20000 -max_total_time=60";
/// Every fault occurs within this time. Chaos that has less time ends when each has occurred once.
const DECK: Duration = Duration::from_secs(180);

/// The smaller check of the same kind in the test command.
#[derive(Clone, Copy, Debug)]
enum Twin {
    /// A test, by the name of its function.
    Test(&'static str),
    /// A step of the test command, by its name.
    Step(&'static str),
}

impl fmt::Display for Twin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test(name) => write!(formatter, "test `{name}`"),
            Self::Step(name) => write!(formatter, "step `{name}`"),
        }
    }
}

/// One row: a step and its twin.
#[derive(Debug)]
struct Prover {
    step: Step,
    twin: Twin,
}

/// Tools that are installed apart from the toolchain.
#[derive(Clone, Copy, Debug, Default)]
struct Tools {
    deny: bool,
    mutants: bool,
    fuzz: bool,
}

/// Runs everything, or as much as fits into `minutes`.
pub(crate) fn run(metadata: &Metadata, minutes: Option<u64>) -> Result<()> {
    let tools = Tools {
        deny: workspace::has_subcommand(metadata, "deny"),
        mutants: workspace::has_subcommand(metadata, "mutants"),
        fuzz: has_fuzz(metadata),
    };
    let time = minutes.map(|minutes| Duration::from_secs(60 * minutes));
    // With the tests, so that features and artefacts are those of the test command.
    let mut steps =
        vec![Step::cargo("programs", "build --workspace --all-features --bins --tests --locked")];
    // With a limit, every commit simulates the same worlds: CI then fails because of a change, not
    // because of a new seed.
    let start = if time.is_some() { FIRST_SEED } else { first_seed() };
    for Prover { step, twin } in provers(time, tools, start) {
        println!("{}: more of the {twin}", step.name);
        steps.push(step);
    }
    // As in the test command, so that its artefacts are used.
    let steps: Vec<Step> = steps.into_iter().map(Step::without_incremental).collect();
    steps::run(metadata, &steps)
}

/// The rows, each with an equal share of the time.
fn provers(time: Option<Duration>, tools: Tools, start: u64) -> Vec<Prover> {
    let mut provers = vec![
        sweep("worlds of the protocol", &[], start, SWEEP_OF_PROTOCOL),
        sweep("worlds of the engine", &["--engine"], start, SWEEP_OF_ENGINE),
        sweep("worlds of clusters", &["--clusters"], start, SWEEP_OF_CLUSTERS),
        sweep("worlds of workers", &["--workers"], start, SWEEP_OF_WORKERS),
        Prover { step: Step::built("planted bugs", "sim", "planted"), twin: Twin::Test(HUNT) },
        Prover {
            step: Step::cargo("memory beside etcd", SEQUENCES)
                .with("SHARDWRIGHT_SEQUENCES", "20000"),
            twin: Twin::Test("random_sequences_agree_in_memory_and_on_etcd"),
        },
        Prover {
            step: Step::cargo("objects of a node", OBJECTS).with("SHARDWRIGHT_OBJECTS", "1000000"),
            twin: Twin::Test("distinct_ids_do_not_grow_the_memory_of_a_node"),
        },
        Prover {
            step: Step::built("model, large bounds", "model", "large"),
            twin: Twin::Test("rules_hold_and_every_situation_occurs"),
        },
        Prover {
            step: Step::chore("specification (TLC), large bounds", "model --tla"),
            twin: Twin::Step("specification (TLC)"),
        },
    ];
    if tools.mutants {
        provers.push(Prover { step: Step::cargo("mutants", MUTANTS), twin: Twin::Test(HUNT) });
        let step = Step::cargo("mutants of guards and calls", MUTANTS_OF_FILES);
        provers.push(Prover { step, twin: Twin::Test(HUNT) });
    }
    if tools.fuzz {
        provers.extend(FUZZ_TARGETS.iter().map(|(target, test)| {
            let line = format!("run {FUZZ_FLAGS} --release --bin {target} -- {FUZZ_LIMITS}");
            Prover { step: Step::cargo("fuzz", &line), twin: Twin::Test(test) }
        }));
    }
    if let Some(time) = time {
        // Chaos gets a share, too.
        let share = time / u32::try_from(provers.len() + 1).unwrap_or(u32::MAX);
        provers.iter_mut().for_each(|prover| prover.step.limit = Some(share));
        provers.push(chaos((share > DECK).then_some(share.as_secs() / 60)));
    } else {
        provers.push(chaos(Some(CHAOS_MINUTES)));
        let benches = "build --workspace --benches --all-features --locked";
        provers.push(Prover {
            step: Step::cargo("benches build", benches),
            twin: Twin::Step("lints"),
        });
    }
    if tools.deny {
        // Tidy checks which crates may be used. This adds their licences and sources.
        provers.push(Prover {
            step: Step::chore("licences and sources", "deny"),
            twin: Twin::Step("tidy"),
        });
    }
    provers
}

const SWEEP_OF_PROTOCOL: &str = "memory_worlds_violate_no_oracle_and_meet_every_refusal";
const SWEEP_OF_ENGINE: &str = "stored_worlds_violate_no_oracle_and_meet_every_fault";
const SWEEP_OF_CLUSTERS: &str = "cluster_worlds_violate_no_oracle_and_meet_every_fault";
const SWEEP_OF_WORKERS: &str = "worker_worlds_violate_no_oracle_and_meet_every_fault";
const HUNT: &str = "every_bug_planted_in_the_protocol_is_detected";

/// Mutants of the pure crates.
const MUTANTS: &str = "mutants --package shardwright-contracts --package shardwright-frontier \
                       --package shardwright-coordination --package shardwright-placement";
/// Mutants of the part of a node that checks ownership. The whole crate would take too long.
const MUTANTS_OF_FILES: &str = "mutants --package shardwright-node --file crates/node/src/host/**";

/// Random sequences of calls on two stores. The features are those of the test command.
const SEQUENCES: &str = "test --workspace --all-features --locked --test etcd random_sequences";

/// Distinct ids through one node. The features are those of the test command.
const OBJECTS: &str = "test --workspace --all-features --locked --test memory distinct_ids";

/// Fuzz targets, and the property test that calls the same check.
const FUZZ_TARGETS: &[(&str, &str)] = &[
    ("composite", "any_bytes_are_a_composite_or_an_error"),
    ("description", "any_bytes_are_a_description_or_an_error"),
    ("hint", "any_bytes_are_a_hint_or_an_error"),
    ("key_arithmetic", "key_arithmetic_agrees_with_big_integers"),
    ("message", "any_bytes_are_a_message_or_an_error"),
    ("metadata", "any_bytes_are_metadata_or_an_error"),
    ("object_id", "any_text_is_an_object_id_or_an_error"),
    ("record", "any_bytes_are_a_record_or_an_error"),
    ("redaction", "no_password_is_shown"),
    ("row_index", "any_bytes_are_a_row_index_or_none"),
    ("scan", "a_scan_never_panics"),
    ("scan_rules", "reading_rules_never_panics"),
    ("seed_format", "any_text_is_a_value_of_a_cluster_or_an_error"),
    ("store_key", "any_bytes_parse_as_at_most_one_key"),
    ("token", "any_bytes_are_a_token_or_an_error"),
    ("worker_line", "any_bytes_are_a_worker_line_or_an_error"),
];

fn sweep(
    name: &'static str,
    flags: &'static [&'static str],
    start: u64,
    test: &'static str,
) -> Prover {
    let action = Action::Sweep(Sweep { flags, start, seeds: SEEDS });
    Prover { step: Step::new(name, action), twin: Twin::Test(test) }
}

fn chaos(minutes: Option<u64>) -> Prover {
    let line = minutes.map_or(String::new(), |minutes| format!("--minutes {minutes}"));
    Prover { step: Step::built("etcd chaos", "chaos", &line), twin: Twin::Step("etcd chaos") }
}

/// The first seed, derived from the commit.
fn first_seed() -> u64 {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let commit = text.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    FIRST_SEED + commit.unwrap_or_default()
}

/// Whether the dependencies of the fuzz targets are downloaded. No check needs the network.
fn has_fuzz(metadata: &Metadata) -> bool {
    let line = format!("metadata --offline --locked --format-version 1 {FUZZ_FLAGS}");
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let found = workspace::cargo(metadata, &arguments).output();
    found.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::{test, test_names};

    const ALL: Tools = Tools { deny: true, mutants: true, fuzz: true };
    const EIGHT: Duration = Duration::from_secs(480);

    #[test]
    fn every_row_has_a_twin_in_the_test_command() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (tests, plan) = (test_names::below(root), test::plan(true));
        for time in [None, Some(EIGHT)] {
            for Prover { step, twin } in provers(time, ALL, 0) {
                let exists = match twin {
                    Twin::Test(name) => tests.contains(name),
                    Twin::Step(name) => plan.iter().any(|step| step.name == name),
                };
                assert!(exists, "{}: there is no {twin}", step.name);
            }
        }
    }

    #[test]
    fn every_fuzz_target_is_run() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/fuzz_targets");
        let files = std::fs::read_dir(folder).unwrap();
        let stem =
            |path: std::path::PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let files: BTreeSet<String> = files.map(|file| stem(file.unwrap().path())).collect();
        let targets = FUZZ_TARGETS.iter().map(|(target, _)| (*target).to_owned()).collect();
        assert_eq!(files, targets);
    }

    /// Without their dependencies, targets are skipped. So a stale lock file would not be noticed.
    #[test]
    fn lock_file_of_fuzz_targets_is_not_older_than_the_crates() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let [ours, of_fuzz] = ["Cargo.lock", "fuzz/Cargo.lock"].map(|file| {
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            own_dependencies(&text)
        });
        assert!(of_fuzz.len() > 10);
        for dependency in &of_fuzz {
            assert!(ours.contains(dependency), "stale in fuzz/Cargo.lock: {dependency:?}");
        }
    }

    /// The dependencies of our crates in a lock file, without their versions.
    fn own_dependencies(lock: &str) -> BTreeSet<(String, String)> {
        let mut found = BTreeSet::new();
        for package in lock.split("[[package]]") {
            let name = package.split('"').nth(1).unwrap_or_default();
            let list = package.split_once("dependencies = [").map_or("", |(_, list)| list);
            if name.starts_with("shardwright-") && name != "shardwright-fuzz" {
                let names = list.split('"').skip(1).step_by(2);
                let first = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
                found.extend(names.map(|other| (name.to_owned(), first(other))));
            }
        }
        found
    }

    #[test]
    fn a_limit_is_shared_by_all_rows() {
        let provers = provers(Some(EIGHT), Tools::default(), 0);
        let limits: Duration = provers.iter().filter_map(|prover| prover.step.limit).sum();
        assert!(limits < EIGHT && limits > EIGHT / 2, "{limits:?}");
        let free = provers.iter().filter(|prover| prover.step.limit.is_none());
        let free: Vec<String> = free.map(|prover| prover.step.heading()).collect();
        assert_eq!(free, ["== etcd chaos: chaos"]);
    }

    #[test]
    fn without_a_limit_everything_runs_to_its_end() {
        let lines: Vec<String> =
            provers(None, ALL, 5).iter().map(|prover| prover.step.heading()).collect();
        let has = |line: &str| lines.iter().any(|one| one.ends_with(line));
        assert!(has("sim --clusters --start 5 --seeds 20000"), "{lines:?}");
        assert!(has("chaos --minutes 30") && has("cargo xtask deny"), "{lines:?}");
        assert!(has("-- -max_len=20000 -max_total_time=60"), "{lines:?}");
    }

    #[test]
    fn every_filter_of_mutants_matches_a_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let filters = MUTANTS_OF_FILES.split_whitespace().filter(|word| word.starts_with("crates"));
        let filters: Vec<&str> = filters.collect();
        assert!(!filters.is_empty());
        for filter in filters {
            assert!(root.join(filter.trim_end_matches("/**")).exists(), "{filter}");
        }
    }

    #[test]
    fn the_seeds_are_not_those_of_the_tests() {
        assert!(first_seed() >= FIRST_SEED);
    }
}
