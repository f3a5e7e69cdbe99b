//! Links between documents lead to files that exist.

use std::path::{Component, Path, PathBuf};

use super::Violation;
use super::sources::Sources;

/// Every link of a document to a file that does not exist.
pub(crate) fn check(sources: &Sources, exists: impl Fn(&Path) -> bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in &sources.documents {
        for (line, content) in (1..).zip(text.lines()) {
            for target in targets(content) {
                let file = resolved(path, target);
                if !exists(&file) {
                    let what = format!("a link to {target}");
                    let why = "there is no such file; add it or remove the link";
                    violations.push(Violation::new(path, line, what, why));
                }
            }
        }
    }
    violations
}

/// The links of a line into the tree, without the anchor.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split_once('#').map_or(target, |(file, _)| file))
        .filter(|target| !target.is_empty() && !target.contains("://"))
}

/// The path of a link's target from the root, given its document.
fn resolved(document: &Path, target: &str) -> PathBuf {
    let mut file = document.parent().map(Path::to_owned).unwrap_or_default();
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir => _ = file.pop(),
            Component::Normal(name) => file.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(path: &str, text: &str) -> Vec<String> {
        let known = ["README.md", "docs/a.md", "crates/contracts"];
        let sources = Sources::from_texts(&[(path, text)]);
        let violations = check(&sources, |file| known.iter().any(|one| Path::new(one) == file));
        violations.iter().map(Violation::to_string).collect()
    }

    #[test]
    fn a_link_to_a_missing_file_is_a_violation() {
        let found = broken("README.md", "see\n[a](docs/a.md) and [b](docs/b.md)");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("README.md:2: a link to docs/b.md"), "{found:?}");
        assert_eq!(broken("docs/a.md", "[x](README.md)").len(), 1, "links start at the document");
    }

    #[test]
    fn links_to_files_and_to_the_web_pass() {
        assert!(
            broken("README.md", "[a](docs/a.md#part) [c](crates/contracts) [d](#here)").is_empty()
        );
        assert!(broken("docs/a.md", "[r](../README.md) [w](https://example.org/x)").is_empty());
        assert!(broken("README.md", "an array[0](not a link").is_empty());
    }
}
