use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How long a process may take until it says that it is there.
const START: Duration = Duration::from_secs(60);

/// This very program as a node or a gate. It is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    /// It ends when this does, also if that is because we were killed.
    _attached: ChildStdin,
    /// Where it receives calls.
    pub(crate) address: String,
}

impl Process {
    /// Starts one, and waits until it serves.
    pub(crate) async fn start(arguments: &[String]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("this program cannot be found")?;
        let mut command = Command::new(program);
        command.args(arguments).arg("--attached").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for us; we tell them.
        command.process_group(0);
        let mut child = command.spawn().context("a process cannot be started")?;
        let attached = child.stdin.take().context("a process has no input")?;
        let output = child.stdout.take().context("a process has no output")?;
        let mut lines = BufReader::new(output).lines();
        let first = tokio::time::timeout(START, lines.next_line()).await;
        let first = first.context("a process says nothing")??;
        let first = first.context("a process ended before it served")?;
        let told: serde_json::Value = serde_json::from_str(&first)?;
        let address = told.get("address").and_then(serde_json::Value::as_str);
        let address = address.context("a process does not say where it is")?.to_owned();
        tokio::spawn(read(lines));
        Ok(Self { child, _attached: attached, address })
    }

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let id = id.context("the process has ended")?;
        Ok(kill_process(id, signal)?)
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&mut self) -> anyhow::Result<ExitStatus> {
        Ok(self.child.wait().await?)
    }
}

/// Reads what is left, so that nobody waits for a reader.
async fn read(mut lines: Lines<BufReader<ChildStdout>>) {
    while let Ok(Some(_)) = lines.next_line().await {}
}
