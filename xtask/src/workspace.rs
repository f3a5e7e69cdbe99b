//! The workspace, its cargo, and the processor time of its commands.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand};

/// Reads the metadata of the workspace around the current folder. Dependencies are not resolved, so
/// it needs neither a lock file nor a network.
pub(crate) fn metadata() -> Result<Metadata> {
    MetadataCommand::new()
        .no_deps()
        .exec()
        .context("cargo could not describe the workspace around the current folder")
}

/// A command of the cargo that started this program, run at the workspace root.
pub(crate) fn cargo(metadata: &Metadata, arguments: &[&str]) -> Command {
    // A toolchain override on the first command line must hold for all later ones.
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&metadata.workspace_root);
    command
}

/// Whether `cargo NAME` exists. Such subcommands are installed apart from cargo.
pub(crate) fn has_subcommand(metadata: &Metadata, name: &str) -> bool {
    cargo(metadata, &[name, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a command, and stops it at the limit, if there is one. A stopped command had not failed, so
/// it counts as a success.
pub(crate) fn succeed_within(command: &mut Command, limit: Option<Duration>) -> Result<()> {
    let Some(limit) = limit else { return succeed(command) };
    // A separate process group, so that its children are stopped with it.
    let mut child =
        command.process_group(0).spawn().with_context(|| format!("could not start {command:?}"))?;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return if status.success() { Ok(()) } else { bail!("{status}") };
        }
        if Instant::now() > deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    succeed(Command::new("kill").args(["-TERM", "--", &format!("-{}", child.id())]))?;
    child.wait()?;
    println!("stopped after {} s without a failure", limit.as_secs());
    Ok(())
}

/// Runs a command to its end, with its output on the terminal.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("could not start {command:?}"))?;
    if !status.success() {
        bail!("{status}");
    }
    Ok(())
}

/// The processor time of all children that have ended, in hundredths of a second. Other load on the
/// machine affects it less than the elapsed time.
pub(crate) fn time_of_children() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat has no name in it")?;
    // The fields of children are the 16th and 17th, and the name is the second.
    let ticks = fields.split_whitespace().skip(13).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<_, _>>()?;
    Ok(Duration::from_millis(ticks * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_command_at_its_limit_is_stopped_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let script = "sleep 600 & echo $! > child; wait";
        let start = Instant::now();
        let mut command = shell(script);
        command.current_dir(folder.path());
        succeed_within(&mut command, Some(Duration::from_millis(500))).unwrap();
        assert!(start.elapsed() < Duration::from_secs(300));
        let child = std::fs::read_to_string(folder.path().join("child")).unwrap();
        let stat = format!("/proc/{}/stat", child.trim());
        // Ended, or a zombie that init has not reaped yet.
        let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        while !is_gone() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_command_that_fails_before_its_limit_has_failed() {
        let limit = Some(Duration::from_secs(600));
        assert!(succeed_within(&mut shell("exit 3"), limit).is_err());
        assert!(succeed_within(&mut shell("exit 0"), limit).is_ok());
        assert!(succeed_within(&mut shell("exit 3"), None).is_err());
    }
}
