//! The text of the tree: every Rust file, parsed once, every manifest and every document.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::violation::Violation;

/// One Rust file.
pub(crate) struct Source {
    pub(crate) text: String,
    pub(crate) syntax: syn::Result<syn::File>,
}

/// All files that any rule looks at, by their path relative to the workspace root.
#[derive(Default)]
pub(crate) struct Sources {
    pub(crate) rust: BTreeMap<PathBuf, Source>,
    pub(crate) manifests: BTreeMap<PathBuf, String>,
    pub(crate) documents: BTreeMap<PathBuf, String>,
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
        if has_extension(path, "rs") {
            let syntax = syn::parse_file(&text);
            self.rust.insert(path.to_owned(), Source { text, syntax });
        } else if has_extension(path, "md") {
            self.documents.insert(path.to_owned(), text);
        } else {
            self.manifests.insert(path.to_owned(), text);
        }
    }

    /// The syntax of a file, if the file is there and parses.
    pub(crate) fn syntax(&self, path: &Path) -> Option<&syn::File> {
        self.rust.get(path).and_then(|source| source.syntax.as_ref().ok())
    }

    /// Files that no rule can look into because they are not Rust.
    pub(crate) fn unparsed(&self) -> Vec<Violation> {
        self.rust
            .iter()
            .filter_map(|(path, source)| {
                let error = source.syntax.as_ref().err()?;
                let line = error.span().start().line;
                let why = "a file that does not parse cannot be checked";
                Some(Violation::new(path, line, error.to_string(), why))
            })
            .collect()
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
    has_extension(path, "rs") || has_extension(path, "md") || path.ends_with("Cargo.toml")
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
    fn sources_manifests_and_documents_are_read_and_build_output_is_not() {
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
        let manifests: Vec<_> = sources.manifests.keys().collect();
        assert_eq!(manifests, [Path::new("Cargo.toml")]);
        let documents: Vec<_> = sources.documents.keys().collect();
        assert_eq!(documents, [Path::new("notes.md")]);
        assert!(sources.syntax(Path::new("src/lib.rs")).is_some());
    }

    #[test]
    fn a_file_that_does_not_parse_is_a_violation_at_its_line() {
        let sources = Sources::from_texts(&[("a.rs", "fn f() {}\nfn fn"), ("b.rs", "fn g() {}")]);
        let found: Vec<String> = sources.unparsed().iter().map(Violation::to_string).collect();
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a.rs:2: "), "{found:?}");
    }
}
