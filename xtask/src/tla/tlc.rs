//! Starting TLC on a copy of the specification.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use super::report::{Report, Verdict};

/// The model checker, what it checks, and a folder to work in.
pub(crate) struct Tlc {
    pub(crate) jar: PathBuf,
    pub(crate) specs: PathBuf,
    pub(crate) folder: PathBuf,
}

/// The expected time of a run, which determines the options of the JVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Seconds: without optimisation, and on one thread because others run beside it.
    Short,
    /// Less than a minute.
    Medium,
    /// Many minutes and much memory.
    Long,
}

/// One run: a module under a configuration, with at most one file replaced by a broken one.
pub(crate) struct TlcRun<'a> {
    pub(crate) name: &'a str,
    pub(crate) module: &'a str,
    pub(crate) config: &'a str,
    pub(crate) broken: Option<(&'a str, &'a str)>,
    pub(crate) effort: Effort,
}

impl Tlc {
    /// The text of a module or configuration.
    pub(crate) fn read(&self, file: &str) -> Result<String> {
        let path = self.specs.join(file);
        fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))
    }

    /// Checks a copy. Its folder and the output of TLC are kept, unless every property holds or one
    /// was to be violated.
    pub(crate) fn run(&self, tlc_run: &TlcRun<'_>) -> Result<Report> {
        let name = format!("{}-{}", tlc_run.name, std::process::id());
        let folder = self.folder.join("work").join(name);
        self.copy(tlc_run, &folder)
            .with_context(|| format!("could not prepare {}", folder.display()))?;
        let output = folder.join("output.txt");
        let (stdout, start) = (File::create(&output)?, Instant::now());
        let archive = self.archive(tlc_run);
        // The exit status of a finished run repeats the output, without names.
        let status = command(&self.jar, tlc_run, &folder, &archive)
            .stdin(Stdio::null())
            .stderr(stdout.try_clone()?)
            .stdout(stdout)
            .status()
            .context("could not start java")?;
        let text = String::from_utf8_lossy(&fs::read(&output)?).into_owned();
        let report = Report::read(text, start.elapsed());
        let as_hoped = match report.verdict {
            Verdict::Holds => tlc_run.broken.is_none(),
            Verdict::Violated(_) | Verdict::TemporalViolated => tlc_run.broken.is_some(),
            Verdict::Broken => false,
        };
        if as_hoped {
            fs::remove_dir_all(&folder)?;
        } else {
            let (name, output) = (tlc_run.name, output.display());
            println!("{name}: TLC ended with {status}; its output is in {output}");
        }
        Ok(report)
    }

    /// An archive of loaded classes for the next start of the JVM. The first of the longer runs
    /// creates it, because these run one at a time.
    fn archive(&self, tlc_run: &TlcRun<'_>) -> Option<String> {
        let archive = self.folder.join("classes.jsa");
        let option = if archive.exists() {
            "SharedArchiveFile"
        } else if tlc_run.effort == Effort::Short {
            return None;
        } else {
            "ArchiveClassesAtExit"
        };
        Some(format!("-XX:{option}={}", archive.display()))
    }

    fn copy(&self, tlc_run: &TlcRun<'_>, folder: &Path) -> Result<()> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        for entry in fs::read_dir(&self.specs)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "tla")
                && let Some(name) = path.file_name()
            {
                fs::copy(&path, folder.join(name))?;
            }
        }
        if let Some((file, text)) = tlc_run.broken {
            fs::write(folder.join(file), text)?;
        }
        fs::write(folder.join("model.cfg"), tlc_run.config)?;
        Ok(())
    }
}

fn command(jar: &Path, tlc_run: &TlcRun<'_>, folder: &Path, archive: &Option<String>) -> Command {
    let (options, workers): (&[&str], _) = match tlc_run.effort {
        Effort::Short => (&["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"], "1"),
        Effort::Medium => (&["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"], "2"),
        Effort::Long => (&["-XX:+UseParallelGC"], "2"),
    };
    let mut command = Command::new("java");
    command.args(options).args(archive);
    // TLC unpacks its standard modules there, and two runs would write the same files.
    command.arg("-Djava.io.tmpdir=.").arg("-cp").arg(jar).arg("tlc2.TLC");
    // The end of a run and a state without work are no deadlocks. By default TLC chooses its
    // fingerprint at random, which would make a rare collision a rare failure.
    command.args(["-deadlock", "-fp", "0", "-workers", workers]);
    command.args(["-metadir", "states", "-config", "model.cfg", tlc_run.module]);
    command.current_dir(folder);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_longer_run_creates_the_archive_of_classes() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().to_owned();
        let tlc = Tlc { jar: PathBuf::new(), specs: PathBuf::new(), folder };
        let option = |effort| {
            let tlc_run = TlcRun { name: "x", module: "A.tla", config: "", broken: None, effort };
            tlc.archive(&tlc_run).unwrap_or_default()
        };
        assert_eq!(option(Effort::Short), "");
        assert!(option(Effort::Medium).starts_with("-XX:ArchiveClassesAtExit="));
        fs::write(root.path().join("classes.jsa"), "").unwrap();
        for effort in [Effort::Short, Effort::Medium, Effort::Long] {
            assert!(option(effort).starts_with("-XX:SharedArchiveFile="), "{effort:?}");
        }
    }

    #[test]
    fn a_copy_has_the_modules_the_broken_file_and_the_configuration() {
        let root = tempfile::tempdir().unwrap();
        let specs = root.path().join("specs");
        fs::create_dir_all(&specs).unwrap();
        for file in ["A.tla", "B.tla", "small.cfg"] {
            fs::write(specs.join(file), file).unwrap();
        }
        let folder = root.path().join("work");
        let tlc = Tlc { jar: PathBuf::new(), specs, folder: folder.clone() };
        let tlc_run = TlcRun {
            name: "x",
            module: "A.tla",
            config: "SPECIFICATION Spec",
            broken: Some(("B.tla", "broken")),
            effort: Effort::Short,
        };
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("left over"), "").unwrap();
        tlc.copy(&tlc_run, &folder).unwrap();
        let read = |file| fs::read_to_string(folder.join(file)).unwrap_or_default();
        assert_eq!((read("A.tla").as_str(), read("B.tla").as_str()), ("A.tla", "broken"));
        assert_eq!(read("model.cfg"), "SPECIFICATION Spec");
        assert!(!folder.join("small.cfg").exists() && !folder.join("left over").exists());
    }
}
