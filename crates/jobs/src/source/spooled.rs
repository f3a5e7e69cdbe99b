//! Stdin, stored in the state folder, so that a resumed run reads the same rows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use shardwright_connectors::{open_regular, spool};
use shardwright_engine::random;
use shardwright_store::create_private_folder;

/// The folder for spooled input.
pub(super) const SPOOL: &str = "spool";
/// Prefix of files that are still being spooled.
const ARRIVING: &str = "arriving-";

/// Spools stdin into a file that is named by its digest.
pub(super) async fn read_pipe(state: &Path) -> anyhow::Result<PathBuf> {
    let folder = state.join(SPOOL);
    create_private_folder(&folder)?;
    // Random, because processes of other machines may share the folder.
    let arriving = folder.join(format!("{ARRIVING}{:016x}", random()));
    spool(std::io::stdin(), &arriving).await.context("stdin cannot be stored")?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(open_regular(&arriving)?)?;
    let kept = folder.join(&hasher.finalize().to_hex()[..32]);
    std::fs::rename(&arriving, &kept)?;
    Ok(std::fs::canonicalize(&kept)?)
}

/// Incomplete spool files older than `age`.
pub fn left_behind(state: &Path, age: Duration) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(state.join(SPOOL)) else { return Vec::new() };
    let is_old = |path: &PathBuf| {
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|elapsed| elapsed >= age))
    };
    let is_arriving = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let is_named = name.starts_with(ARRIVING.as_bytes()) || name.starts_with(b".spool-");
        is_named && path.symlink_metadata().is_ok_and(|found| found.is_file())
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(is_arriving).filter(is_old).collect()
}
