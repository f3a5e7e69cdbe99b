//! Blocking calls of sources, and which errors of the operating system are transient.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use shardwright_worker::connector::ConnectorError;

/// Runs `work` on the runtime's blocking pool.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ConnectorError> + Send + 'static,
) -> Result<T, ConnectorError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ConnectorError::Stopped),
        },
    }
}

/// Opens a source at a path on the blocking pool.
pub(crate) async fn open_source<T: Send + 'static>(
    path: impl Into<PathBuf>,
    open: impl FnOnce(PathBuf) -> Result<T, ConnectorError> + Send + 'static,
) -> Result<Arc<T>, ConnectorError> {
    let path = path.into();
    blocking(move || open(path)).await.map(Arc::new)
}

/// Wraps an error of the operating system, classified as transient or permanent by its code.
pub fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ConnectorError {
    move |source| ConnectorError::Io {
        doing,
        path: path.to_owned(),
        transient: may_pass(&source),
        source,
    }
}

/// Whether an error is transient: a shortage of the process, or a failing disk or server.
pub(crate) fn may_pass(error: &io::Error) -> bool {
    is_shortage(error) || is_failing_part(error)
}

/// Whether an error is a shortage of the process or machine, which affects all paths.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

/// Whether an error is of a failing disk or server, as a whole or at this path.
pub(crate) fn is_failing_part(error: &io::Error) -> bool {
    // A retry looks up a stale handle again.
    let failing = [
        Errno::IO,
        Errno::STALE,
        Errno::TIMEDOUT,
        Errno::BUSY,
        Errno::NOTCONN,
        Errno::CONNRESET,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::REMOTEIO,
    ];
    Errno::from_io_error(error).is_some_and(|errno| failing.contains(&errno))
}
