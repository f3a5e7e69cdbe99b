//! Which errors of the system may pass.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use shardwright_worker::connector::ConnectorError;

/// Wraps an error of the system, classified as transient or permanent by its code.
pub fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ConnectorError {
    move |source| ConnectorError::Io {
        doing,
        path: path.to_owned(),
        transient: may_pass(&source),
        source,
    }
}

/// Whether an error speaks of what the process or machine lacks, or of a disk or a server that is
/// in trouble, and not of the thing asked for.
pub(crate) fn may_pass(error: &io::Error) -> bool {
    is_shortage(error) || is_trouble(error)
}

/// Whether an error speaks of what the process or machine lacks. Whatever is asked for, it would
/// be the same.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

/// Whether an error speaks of a disk or a server in trouble, all of it or the place asked for.
pub(crate) fn is_trouble(error: &io::Error) -> bool {
    // A handle that went stale is looked up anew the next time.
    let troubles = [
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
    Errno::from_io_error(error).is_some_and(|errno| troubles.contains(&errno))
}
