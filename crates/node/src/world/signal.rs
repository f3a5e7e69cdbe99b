use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Waits until somebody wants this process to end: by a signal to terminate, or from the keyboard.
/// A node is drained then.
pub async fn terminated() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
