//! `cargo xtask model --tla` and the step of the test command that checks the specification.
//!
//! TLC checks the modules in `specs/coordination` within the bounds of a configuration. Then it
//! checks copies of them with one broken rule each. Each of these defects must violate the property
//! that the rule serves, because a property that cannot fail proves nothing.

mod config;
mod jar;
mod mutation;
mod report;
mod tlc;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use cargo_metadata::Metadata;

use crate::system_packages;
use mutation::Mutation;
use report::{Report, Verdict};
use tlc::{Effort, Tlc, TlcRun};

/// The folder of the modules and configurations, below the workspace root.
const SPECS: &str = "specs/coordination";

/// Runs of TLC at a time where each is too short to use two threads.
const AT_A_TIME: usize = 2;

/// One configuration that must hold, and its number of states. The number is fixed, so that an edit
/// that loses behaviours is noticed.
#[derive(Clone, Copy, Debug)]
struct Check {
    config: &'static str,
    module: &'static str,
    distinct: u64,
}

/// The configurations of the test command.
const SMALL: &[Check] = &[
    Check { config: "small.cfg", module: "ShardRunCheck.tla", distinct: 27_693 },
    Check { config: "wide.cfg", module: "ShardRunCheck.tla", distinct: 5_499 },
    Check { config: "liveness.cfg", module: "ShardRunLiveness.tla", distinct: 5_580 },
];

/// The configurations that take too long for the test command.
const LARGE: &[Check] = &[
    Check { config: "large.cfg", module: "ShardRunCheck.tla", distinct: 329_505 },
    Check { config: "liveness_large.cfg", module: "ShardRunLiveness.tla", distinct: 22_152 },
];

/// The small configurations and every planted defect.
pub(crate) fn small(metadata: &Metadata) -> Result<()> {
    let tlc = prepare(metadata)?;
    check_all(&tlc, SMALL, Effort::Medium)?;
    catch_all(&tlc, &mutation::all())
}

/// The large configurations and every planted defect.
pub(crate) fn large(metadata: &Metadata) -> Result<()> {
    let tlc = prepare(metadata)?;
    check_all(&tlc, LARGE, Effort::Long)?;
    catch_all(&tlc, &mutation::all())
}

fn prepare(metadata: &Metadata) -> Result<Tlc> {
    system_packages::ensure(system_packages::PACKAGES, &mut system_packages::Debian)?;
    let folder = metadata.target_directory.join("tla").into_std_path_buf();
    let jar = jar::ensure(&folder)?;
    Ok(Tlc { jar, specs: metadata.workspace_root.join(SPECS).into_std_path_buf(), folder })
}

/// Checks all configurations, and that everything that must be reachable was reached.
fn check_all(tlc: &Tlc, checks: &[Check], effort: Effort) -> Result<()> {
    let mut wanted = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for check in checks {
        let Check { config, module, distinct } = *check;
        println!("{config}: checking");
        let config_text = tlc.read(config)?;
        let tlc_run = TlcRun { name: config, module, config: &config_text, broken: None, effort };
        let report = tlc.run(&tlc_run)?;
        println!("{config}: {}", report.summary());
        accept(&report, distinct).with_context(|| format!("{config} of {module}"))?;
        wanted.extend(report.wanted);
        seen.extend(report.seen);
    }
    let never: Vec<&str> = wanted.difference(&seen).map(String::as_str).collect();
    if !never.is_empty() {
        bail!("never reached, so nothing is proved about them: {}", never.join(", "));
    }
    println!("witnesses: {} of {} seen", seen.len(), wanted.len());
    Ok(())
}

fn accept(report: &Report, distinct: u64) -> Result<()> {
    match &report.verdict {
        Verdict::Holds if report.distinct == distinct => Ok(()),
        Verdict::Holds => bail!(
            "{} states instead of {distinct}; if the specification was meant to change, so must \
             the number",
            report.distinct
        ),
        Verdict::Violated(property) => bail!("{property} is violated\n{}", report.error_text()),
        Verdict::TemporalViolated => {
            bail!("a temporal property is violated\n{}", report.error_text())
        }
        Verdict::Broken => bail!("TLC did not finish\n{}", report.error_text()),
    }
}

/// Runs TLC on every mutation, and fails with the names of those that were not caught as the table
/// states.
fn catch_all(tlc: &Tlc, mutations: &[Mutation]) -> Result<()> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(mutation) = mutations.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = catch(tlc, mutation);
                    if let Ok(mut outcomes) = outcomes.lock() {
                        outcomes.push((mutation, outcome));
                    }
                }
            });
        }
    });
    let mut outcomes =
        outcomes.into_inner().map_err(|_| anyhow!("a thread that ran TLC panicked"))?;
    outcomes.sort_by_key(|(mutation, _)| mutation.name);
    let mut escaped = Vec::new();
    for (mutation, outcome) in &outcomes {
        match outcome {
            Ok(summary) => println!("{}: caught by {summary}", mutation.name),
            Err(error) => escaped.push(format!("{}: {error:#}", mutation.name)),
        }
    }
    if !escaped.is_empty() {
        bail!("planted defects that no property caught:\n{}", escaped.join("\n"));
    }
    println!("planted defects: all {} caught", outcomes.len());
    Ok(())
}

fn catch(tlc: &Tlc, mutation: &Mutation) -> Result<String> {
    let Mutation { name, property, .. } = *mutation;
    let text = mutation.apply(&tlc.read(mutation::MODULE)?)?;
    // Only this property is checked, so that it is the one that catches the defect.
    let config = config::only(&tlc.read(mutation.config)?, property)?;
    let tlc_run = TlcRun {
        name,
        module: mutation.root_module(),
        config: &config,
        broken: Some((mutation::MODULE, &text)),
        effort: Effort::Short,
    };
    let report = tlc.run(&tlc_run)?;
    match &report.verdict {
        Verdict::Violated(violated) if violated == property => {}
        Verdict::TemporalViolated if config::is_temporal(mutation.config) => {}
        Verdict::Holds => bail!("{property} holds despite the defect, {}", report.summary()),
        Verdict::Violated(_) | Verdict::TemporalViolated | Verdict::Broken => {
            bail!("{property} did not catch the defect\n{}", report.error_text())
        }
    }
    Ok(format!("{property} ({:.1} s)", report.elapsed.as_secs_f64()))
}

#[cfg(test)]
mod tests;
