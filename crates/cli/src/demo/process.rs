use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The timeout for the first line of a process.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// This program as a node or a gate. Dropping it kills the process.
pub(crate) struct Process {
    child: Child,
    /// The process exits when this pipe closes, even if this process was killed.
    _attached: ChildStdin,
    /// The address that the process listens on.
    pub(crate) address: String,
}

impl Process {
    /// Starts a process, and waits until it serves.
    pub(crate) async fn start(arguments: &[String]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.args(arguments).arg("--attached").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // A process group of its own, so that Ctrl-C reaches only this process.
        command.process_group(0);
        let mut child = command.spawn().context("cannot start a process")?;
        let attached = child.stdin.take().context("the process has no stdin")?;
        let output = child.stdout.take().context("the process has no stdout")?;
        let mut lines = BufReader::new(output).lines();
        let first = tokio::time::timeout(START_TIMEOUT, lines.next_line()).await;
        let first = first.context("the process did not start in time")??;
        let first = first.context("the process ended before it served")?;
        let event: serde_json::Value = serde_json::from_str(&first)?;
        let address = event.get("address").and_then(serde_json::Value::as_str);
        let address = address.context("the process reported no address")?.to_owned();
        tokio::spawn(drain(lines));
        Ok(Self { child, _attached: attached, address })
    }

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let id = id.context("the process has ended")?;
        Ok(kill_process(id, signal)?)
    }

    /// Waits until the process has ended.
    pub(crate) async fn ended(&mut self) -> anyhow::Result<ExitStatus> {
        Ok(self.child.wait().await?)
    }
}

/// Reads and drops the output, so that the process never blocks on a full pipe.
async fn drain(mut lines: Lines<BufReader<ChildStdout>>) {
    while let Ok(Some(_)) = lines.next_line().await {}
}
