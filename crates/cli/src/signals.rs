//! Ctrl-C, once and twice.

use shardwright_worker::StopSignal;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;
use crate::say::note;

/// The first signal stops gently; the second ends the program at once. Nothing is lost by that:
/// what is committed stays, and children die with us.
pub(crate) fn stop_on_signals(stop: StopSignal) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        note!("stopping: items that have begun are finished; once more to end at once");
        stop.stop();
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(())
}
