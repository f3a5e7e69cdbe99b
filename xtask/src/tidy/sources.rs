//! The text of the tree: every Rust file, every document, every manifest and Clippy setting.

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
}

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
                } else if kind.is_file() && is_wanted(&path) {
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
        } else {
            &mut self.settings
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
    ["rs", "md", "toml"].iter().any(|extension| has_extension(path, extension))
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension == wanted)
}

fn is_generated(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name == "target" || name.starts_with('.') || name.starts_with("mutants.out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_settings_and_documents_are_read_and_build_output_is_not() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["src", "target", ".git"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("lib.rs"), "fn f() {}").unwrap();
        }
        fs::write(folder.path().join("Cargo.toml"), "[package]").unwrap();
        fs::write(folder.path().join("notes.md"), "not Rust").unwrap();
        fs::write(folder.path().join("data.bin"), "nothing to check").unwrap();
        let sources = Sources::load(folder.path()).unwrap();
        let paths: Vec<_> = sources.rust.keys().collect();
        assert_eq!(paths, [Path::new("src/lib.rs")]);
        let settings: Vec<_> = sources.settings.keys().collect();
        assert_eq!(settings, [Path::new("Cargo.toml")]);
        let documents: Vec<_> = sources.documents.keys().collect();
        assert_eq!(documents, [Path::new("notes.md")]);
    }
}
