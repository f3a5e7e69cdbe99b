//! The text of the tree: Rust files, documents, settings, and other files with prose.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// All files that any rule checks, by their path relative to the workspace root.
#[derive(Default)]
pub(crate) struct Sources {
    pub(crate) rust: BTreeMap<PathBuf, String>,
    pub(crate) documents: BTreeMap<PathBuf, String>,
    pub(crate) settings: BTreeMap<PathBuf, String>,
    /// Specifications, interfaces, scripts, pictures and test stories.
    pub(crate) others: BTreeMap<PathBuf, String>,
}

/// How the names of the other files end.
const OTHERS: [&str; 7] = ["txt", "proto", "tla", "cfg", "sh", "py", "svg"];
/// Other files without such an end.
const OTHER_NAMES: [&str; 2] = ["justfile", ".ci/run"];
/// A hidden folder with files of the project.
const CI: &str = ".ci";

impl Sources {
    /// Reads everything under a folder except build output and hidden folders.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let mut sources = Self::default();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder)
                .with_context(|| format!("could not list {}", folder.display()))?;
            for entry in entries {
                let entry = entry?;
                let path = entry.path();
                let kind = entry.file_type()?;
                if kind.is_dir() && !is_generated(&path) {
                    folders.push(path);
                } else if kind.is_file() && is_wanted(path.strip_prefix(root)?) {
                    let text = fs::read_to_string(&path)
                        .with_context(|| format!("could not read {}", path.display()))?;
                    sources.insert(path.strip_prefix(root)?, text);
                }
            }
        }
        Ok(sources)
    }

    fn insert(&mut self, path: &Path, text: String) {
        let files = if has_extension(path, "rs") {
            &mut self.rust
        } else if has_extension(path, "md") {
            &mut self.documents
        } else if has_extension(path, "toml") {
            &mut self.settings
        } else {
            &mut self.others
        };
        files.insert(path.to_owned(), text);
    }

    #[cfg(test)]
    pub(crate) fn from_texts(texts: &[(&str, &str)]) -> Self {
        let mut sources = Self::default();
        for (path, text) in texts {
            sources.insert(Path::new(path), (*text).to_owned());
        }
        sources
    }
}

fn is_wanted(path: &Path) -> bool {
    let extensions = ["rs", "md", "toml"].iter().chain(&OTHERS);
    extensions.into_iter().any(|extension| has_extension(path, extension))
        || OTHER_NAMES.iter().any(|name| path == Path::new(name))
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension == wanted)
}

fn is_generated(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name == "target" || (name.starts_with('.') && name != CI) || name.starts_with("mutants.out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_with_prose_are_read_and_build_output_is_not() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["src", "target", ".git"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("lib.rs"), "fn f() {}").unwrap();
        }
        fs::write(folder.path().join("Cargo.toml"), "[package]").unwrap();
        fs::write(folder.path().join("notes.md"), "not Rust").unwrap();
        fs::write(folder.path().join("data.bin"), "nothing to check").unwrap();
        fs::create_dir(folder.path().join(CI)).unwrap();
        for name in ["justfile", ".ci/run", "a.tla", "a.proto"] {
            fs::write(folder.path().join(name), "prose").unwrap();
        }
        let sources = Sources::load(folder.path()).unwrap();
        let paths: Vec<_> = sources.rust.keys().collect();
        assert_eq!(paths, [Path::new("src/lib.rs")]);
        let settings: Vec<_> = sources.settings.keys().collect();
        assert_eq!(settings, [Path::new("Cargo.toml")]);
        let documents: Vec<_> = sources.documents.keys().collect();
        assert_eq!(documents, [Path::new("notes.md")]);
        let others: Vec<_> = sources.others.keys().map(|path| path.to_string_lossy()).collect();
        assert_eq!(others, [".ci/run", "a.proto", "a.tla", "justfile"]);
    }
}
