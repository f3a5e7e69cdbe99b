//! What comes through a pipe, put into a file.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use shardwright_worker::connector::ConnectorError;

use crate::blocking::blocking;
use crate::trouble::io_error;

/// Copies everything that `reader` gives into the file at `path`; tells how many bytes.
///
/// The file is there, whole and on the disk, or not at all: what is interrupted leaves only a
/// temporary file beside it.
pub async fn spool(
    reader: impl Read + Send + 'static,
    path: impl Into<PathBuf>,
) -> Result<u64, ConnectorError> {
    let path = path.into();
    blocking(move || copy(reader, &path).map_err(io_error("spool into", &path))).await
}

fn copy(mut reader: impl Read, path: &Path) -> io::Result<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".spool-").tempfile_in(folder)?;
    let bytes = io::copy(&mut reader, file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    // The name has to survive a loss of power as well.
    std::fs::File::open(folder)?.sync_all()?;
    Ok(bytes)
}
