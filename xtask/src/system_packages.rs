//! Debian packages that the tests need, and their installation.
//!
//! A test whose program is missing must not pass by being skipped. So the programs are listed here
//! and installed where possible. A missing program that cannot be installed fails the run before
//! any test starts.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace;

/// Every package the tests need.
pub(crate) const PACKAGES: &[Package] = &[
    Package {
        name: "default-jre-headless",
        proof: Proof::Program("java"),
        reason: "TLC, which checks the specification, is a Java program",
    },
    Package {
        name: "etcd-server",
        proof: Proof::Program("etcd"),
        reason: "the etcd store is tested on a real etcd",
    },
    Package {
        name: "python3-pip",
        proof: Proof::File("/usr/lib/python3/dist-packages/pip/__main__.py"),
        reason: "TLC and the S3 server of the tests come in Python packages",
    },
];

/// One Debian package, how to see that it is installed, and what needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) proof: Proof,
    pub(crate) reason: &'static str,
}

/// The proof that a package is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// A program on the search path.
    Program(&'static str),
    /// A file at an absolute path.
    File(&'static str),
}

/// The machine, as far as installing packages is concerned.
pub(crate) trait System {
    fn has(&self, proof: Proof) -> bool;
    fn is_root(&self) -> bool;
    fn apt_get(&mut self, arguments: &[&str]) -> Result<()>;
}

/// The machine this runs on.
pub(crate) struct Debian;

impl System for Debian {
    fn has(&self, proof: Proof) -> bool {
        match proof {
            Proof::File(path) => Path::new(path).exists(),
            Proof::Program(name) => std::env::var_os("PATH").is_some_and(|path| {
                std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
            }),
        }
    }

    fn is_root(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        // The owner of this process's own entry is its user.
        std::fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
    }

    fn apt_get(&mut self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new("apt-get");
        workspace::succeed(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    }
}

/// Installs the missing packages, or fails with their names and what needs them.
pub(crate) fn ensure(packages: &[Package], system: &mut dyn System) -> Result<()> {
    let missing = missing(packages, system);
    if missing.is_empty() {
        return Ok(());
    }
    let listing = listing(&missing);
    if !system.is_root() {
        bail!("only root can install these missing Debian packages:\n{listing}");
    }
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(missing.iter().map(|package| package.name));
    system
        .apt_get(&["update"])
        .and_then(|()| system.apt_get(&install))
        .with_context(|| format!("apt-get could not install these packages:\n{listing}"))?;
    let absent = self::missing(&missing, system);
    if !absent.is_empty() {
        let listing = self::listing(&absent);
        bail!("these packages are installed, but their programs are missing:\n{listing}");
    }
    Ok(())
}

fn missing(packages: &[Package], system: &dyn System) -> Vec<Package> {
    packages.iter().copied().filter(|package| !system.has(package.proof)).collect()
}

fn listing(packages: &[Package]) -> String {
    let lines: Vec<String> = packages
        .iter()
        .map(|package| {
            let proof = match package.proof {
                Proof::Program(name) => format!("program {name}"),
                Proof::File(path) => format!("file {path}"),
            };
            format!("  {} ({proof}): {}", package.name, package.reason)
        })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETCD: Package = Package {
        name: "etcd-server",
        proof: Proof::Program("etcd"),
        reason: "the etcd store is tested against a real server",
    };
    const CHROMIUM: Package = Package {
        name: "chromium",
        proof: Proof::File("/usr/bin/chromium"),
        reason: "the dashboard is tested in a real browser",
    };

    #[derive(Default)]
    struct Fake {
        present: Vec<Proof>,
        root: bool,
        apt_fails: bool,
        apt_installs: Vec<Proof>,
        calls: Vec<String>,
    }

    impl System for Fake {
        fn has(&self, proof: Proof) -> bool {
            self.present.contains(&proof)
        }

        fn is_root(&self) -> bool {
            self.root
        }

        fn apt_get(&mut self, arguments: &[&str]) -> Result<()> {
            self.calls.push(arguments.join(" "));
            if self.apt_fails {
                bail!("no route to the archive");
            }
            if arguments.contains(&"install") {
                self.present.append(&mut self.apt_installs);
            }
            Ok(())
        }
    }

    #[test]
    fn nothing_runs_if_every_package_is_installed() {
        let mut system = Fake { present: vec![ETCD.proof, CHROMIUM.proof], ..Fake::default() };
        ensure(&[ETCD, CHROMIUM], &mut system).unwrap();
        assert!(system.calls.is_empty());
    }

    #[test]
    fn an_empty_table_needs_neither_root_nor_apt() {
        let mut system = Fake::default();
        ensure(&[], &mut system).unwrap();
        assert!(system.calls.is_empty());
    }

    #[test]
    fn root_updates_once_and_installs_only_what_is_missing() {
        let mut system = Fake {
            present: vec![ETCD.proof],
            root: true,
            apt_installs: vec![CHROMIUM.proof],
            ..Fake::default()
        };
        ensure(&[ETCD, CHROMIUM], &mut system).unwrap();
        assert_eq!(system.calls, ["update", "install -y --no-install-recommends chromium"]);
    }

    #[test]
    fn a_missing_package_fails_without_root() {
        let mut system = Fake::default();
        let message = format!("{:#}", ensure(&[ETCD], &mut system).unwrap_err());
        assert!(message.contains("only root"), "{message}");
        assert!(message.contains(ETCD.name) && message.contains(ETCD.reason), "{message}");
        assert!(system.calls.is_empty());
    }

    #[test]
    fn a_failing_apt_names_the_package_and_what_needs_it() {
        let mut system = Fake { root: true, apt_fails: true, ..Fake::default() };
        let message = format!("{:#}", ensure(&[ETCD], &mut system).unwrap_err());
        assert!(message.contains(ETCD.name) && message.contains(ETCD.reason), "{message}");
        assert!(message.contains("no route to the archive"), "{message}");
        assert_eq!(system.calls, ["update"], "an install after a failed update proves nothing");
    }

    #[test]
    fn a_package_without_its_proof_is_a_failure() {
        let mut system = Fake { root: true, apt_installs: vec![CHROMIUM.proof], ..Fake::default() };
        let message = format!("{:#}", ensure(&[ETCD, CHROMIUM], &mut system).unwrap_err());
        assert!(message.contains("etcd-server") && !message.contains("chromium"), "{message}");
    }

    #[test]
    fn programs_and_files_are_found() {
        assert!(Debian.has(Proof::Program("sh")));
        assert!(!Debian.has(Proof::Program("a-program-that-does-not-exist")));
        assert!(Debian.has(Proof::File("/proc/self/status")));
        assert!(!Debian.has(Proof::File("/proc/self/a-file-that-is-not-there")));
    }
}
