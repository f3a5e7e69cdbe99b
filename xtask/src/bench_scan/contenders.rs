//! The programs that scan the tree, and our default rules in their formats.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use cargo_metadata::Metadata;

use crate::workspace;

/// A rule in the form that other scanners support.
pub(super) struct Pattern {
    pub(super) id: String,
    pub(super) regex: String,
    pub(super) entropy: f64,
}

pub(super) fn patterns(rules: &Path) -> Result<Vec<Pattern>> {
    let text = fs::read_to_string(rules).with_context(|| rules.display().to_string())?;
    let table: toml::Table = text.parse()?;
    let rules = table.get("rules").and_then(toml::Value::as_array).context("there are no rules")?;
    let pattern = |rule: &toml::Value| {
        let text = |field: &str| rule.get(field)?.as_str().map(str::to_owned);
        let entropy = rule.get("entropy").and_then(toml::Value::as_float).unwrap_or_default();
        Some(Pattern { id: text("id")?, regex: text("regex")?, entropy })
    };
    Ok(rules.iter().filter_map(pattern).collect())
}

/// One pattern per line. A pattern over several lines is cut to its first, because a search by
/// lines finds no more.
fn as_lines(patterns: &[Pattern]) -> String {
    let line = |pattern: &Pattern| match pattern.regex.split_once("-----(.") {
        Some((first, _)) => format!("{first}-----\n"),
        None => format!("{}\n", pattern.regex),
    };
    patterns.iter().map(line).collect()
}

/// The rules in Kingfisher's format.
fn as_kingfisher(patterns: &[Pattern]) -> String {
    let rule = |pattern: &Pattern| {
        format!(
            "  - name: {id}\n    id: bench.{id}\n    pattern: |-\n      {regex}\n    \
             min_entropy: {entropy:.1}\n    confidence: medium\n    examples: []\n",
            id = pattern.id,
            regex = pattern.regex,
            entropy = pattern.entropy,
        )
    };
    format!("rules:\n{}", patterns.iter().map(rule).collect::<String>())
}

/// The report of our own scan, in the folder of the bench.
pub(super) const REPORT: &str = "report.jsonl";
const KINGFISHER: &str = "kingfisher-bin";

/// A program, and its exit codes.
pub(super) struct Contender {
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) exits: &'static [i32],
}

/// All contenders. `shardwright scan` is the first.
pub(super) fn all(
    metadata: &Metadata,
    folder: &Path,
    tree: &Path,
    patterns: &[Pattern],
) -> Result<Vec<Contender>> {
    let threads = std::thread::available_parallelism()?.to_string();
    let (lines, rules) = (folder.join("patterns.txt"), folder.join("rules.yml"));
    fs::write(&lines, as_lines(patterns))?;
    fs::write(&rules, as_kingfisher(patterns))?;
    let ours = Contender {
        name: "shardwright scan".to_owned(),
        program: metadata.target_directory.join("release/shardwright").into(),
        arguments: words("scan --fresh --format jsonl --workers")
            .chain([(&threads).into(), "--report".into(), folder.join(REPORT).into()])
            .chain(["--store".into(), store(folder), tree.into()])
            .collect(),
        exits: &[1],
    };
    let ripgrep = Contender {
        name: "ripgrep, same patterns".to_owned(),
        program: "rg".into(),
        arguments: words("--no-config --no-ignore --hidden --no-unicode --no-messages --json -j")
            .chain([(&threads).into(), "-f".into(), lines.into(), tree.into()])
            .collect(),
        exits: &[0, 1],
    };
    let kingfisher = kingfisher(folder)?;
    let common = "scan --no-validate --no-extract-archives --no-base64 --git-history none --quiet \
                  --no-update-check --format jsonl -j";
    let with = |name: &str, more: Vec<OsString>| Contender {
        name: name.to_owned(),
        program: kingfisher.clone(),
        arguments: words(common)
            .chain([(&threads).into(), "--output".into(), folder.join("kingfisher").into()])
            .chain(more)
            .chain([tree.into()])
            .collect(),
        exits: &[0, 200],
    };
    let same = vec!["--load-builtins".into(), "false".into(), "--rules-path".into(), rules.into()];
    Ok(vec![
        ours,
        ripgrep,
        with("Kingfisher, same patterns", same),
        with("Kingfisher, its own rules", Vec::new()),
    ])
}

fn words(text: &str) -> impl Iterator<Item = OsString> {
    text.split_whitespace().map(OsString::from)
}

fn store(folder: &Path) -> OsString {
    let mut store = OsString::from("file:");
    store.push(folder.join("state"));
    store
}

/// Fetches Kingfisher's program.
fn kingfisher(folder: &Path) -> Result<PathBuf> {
    let place = folder.join(KINGFISHER);
    fs::create_dir_all(&place)?;
    let python = || {
        let mut python = Command::new("/usr/bin/python3");
        python.current_dir(&place);
        python
    };
    let download = ["-m", "pip", "download", "--quiet", "--no-deps", "--dest", ".", KINGFISHER];
    workspace::succeed(python().args(download)).context("Kingfisher could not be fetched")?;
    let names = fs::read_dir(&place)?.filter_map(|entry| entry.ok().map(|it| it.path()));
    let mut wheels = names.filter(|path| path.extension().is_some_and(|it| it == "whl"));
    let wheel = wheels.next().context("pip downloaded no wheel")?;
    let mut unzip = python();
    workspace::succeed(unzip.args(["-m", "zipfile", "-e"]).arg(wheel).arg("."))?;
    let program = place.join("kingfisher/bin/kingfisher");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(program)
}
