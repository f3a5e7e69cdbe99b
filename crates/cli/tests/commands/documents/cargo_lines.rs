//! Checks the cargo and java lines of console blocks without running them, because they take
//! minutes. Each chore, package, example, path, fuzz target and specification that they name must
//! exist.

use std::fs;
use std::path::PathBuf;

use super::root;

/// Checks a line with the output that the page shows below it.
pub(super) fn check(line: &str, output: &[&str]) -> Result<(), String> {
    let line = line.split(" #").next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    if line.starts_with("java ") {
        let is_specification = |word: &&str| word.ends_with(".cfg") || word.ends_with(".tla");
        let mut files = words.into_iter().filter(is_specification);
        return files.try_for_each(|file| exists(format!("specs/coordination/{file}")));
    }
    let after = |flag: &str| {
        let mut pairs = words.windows(2).filter(|pair| pair[0] == flag);
        pairs.next().map(|pair| pair[1])
    };
    match words.get(1).copied() {
        Some("xtask") => return chore(words.get(2).copied().unwrap_or_default()),
        Some("add") => return added(words.get(2).copied().unwrap_or_default(), after("--path")),
        Some("run" | "bench" | "build" | "install" | "mutants" | "nextest" | "test") => {}
        _ => return Err(format!("unknown cargo command: {line}")),
    }
    if let Some(package) = after("-p") {
        is_package(package)?;
    }
    if let Some(path) = after("--path") {
        exists(format!("{path}/Cargo.toml"))?;
    }
    for file in [after("--config"), after("--manifest-path")].into_iter().flatten() {
        exists(file.to_owned())?;
    }
    if let Some(target) = after("--bin") {
        exists(format!("fuzz/fuzz_targets/{target}.rs"))?;
    }
    after("--example").map_or(Ok(()), |name| example(name, output))
}

/// A chore is a variant of the enumeration in `xtask/src/main.rs`.
fn chore(name: &str) -> Result<(), String> {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    let variant: String = name.split('-').map(capital).collect();
    let source = fs::read_to_string(root().join("xtask/src/main.rs")).unwrap();
    let is_known = [" {", ","].iter().any(|end| source.contains(&format!("\n    {variant}{end}")));
    if is_known { Ok(()) } else { Err(format!("no chore `{name}`")) }
}

/// A crate of this repository is at the path that the page names. Any other is one that the
/// workspace uses, too.
fn added(name: &str, path: Option<&str>) -> Result<(), String> {
    let manifest = match path {
        Some(path) => {
            let folder = path.strip_prefix("../shardwright/");
            format!("{}/Cargo.toml", folder.ok_or_else(|| format!("not in a clone: {path}"))?)
        }
        None => "Cargo.toml".to_owned(),
    };
    exists(manifest.clone())?;
    let line = if path.is_some() { format!("name = \"{name}\"") } else { format!("{name} = ") };
    let text = fs::read_to_string(root().join(&manifest)).unwrap();
    let is_named = text.lines().any(|found| found.starts_with(&line));
    if is_named { Ok(()) } else { Err(format!("{manifest} does not name {name}")) }
}

fn is_package(name: &str) -> Result<(), String> {
    let manifests = ["crates", "examples", "specs"].map(|folder| root().join(folder));
    let folders = manifests.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let folders = folders.map(|entry| entry.unwrap().path()).chain([root().join("xtask")]);
    let line = format!("name = \"{name}\"");
    let is_it = |folder: PathBuf| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        manifest.lines().any(|found| found == line)
    };
    if folders.into_iter().any(is_it) { Ok(()) } else { Err(format!("no package `{name}`")) }
}

fn exists(path: String) -> Result<(), String> {
    if root().join(&path).exists() { Ok(()) } else { Err(format!("no file {path}")) }
}

/// An example checks its own output. The lines on the page must occur in its source.
fn example(name: &str, output: &[&str]) -> Result<(), String> {
    let path = format!("examples/{name}.rs");
    exists(path.clone())?;
    let source = fs::read_to_string(root().join(path)).unwrap();
    let missing = output.iter().find(|line| **line != "…" && !source.contains(*line));
    missing.map_or(Ok(()), |line| Err(format!("the example {name} does not print: {line}")))
}
