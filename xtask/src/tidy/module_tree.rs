//! The modules of one target, found as the compiler finds them: by following `mod`.

use std::path::{Component, Path, PathBuf};

use syn::ext::IdentExt;
use syn::{Attribute, Expr, Item, ItemMod, Lit, Meta};

use super::sources::Sources;
use super::test_code::is_test;
use super::violation::Violation;

/// One module, in a file of its own or inline.
pub(crate) struct Module<'s> {
    /// `crate`, then the name of each module down to this one.
    pub(crate) name: Vec<String>,
    pub(crate) file: PathBuf,
    pub(crate) attributes: &'s [Attribute],
    pub(crate) items: &'s [Item],
    /// Whether the module exists only when the tests are built.
    pub(crate) test: bool,
}

/// All modules of one target, and the declarations that lead nowhere.
pub(crate) struct Tree<'s> {
    pub(crate) modules: Vec<Module<'s>>,
    pub(crate) violations: Vec<Violation>,
}

/// Follows every `mod` from the root file of a target.
pub(crate) fn walk<'s>(sources: &'s Sources, root: &Path, test: bool) -> Tree<'s> {
    let mut walk = Walk { sources, tree: Tree { modules: Vec::new(), violations: Vec::new() } };
    let folder = root.parent().unwrap_or(Path::new("")).to_owned();
    walk.file(root, &Place { name: vec!["crate".to_owned()], folder, inline: false, test });
    walk.tree
}

struct Walk<'s> {
    sources: &'s Sources,
    tree: Tree<'s>,
}

/// Where a module stands.
struct Place {
    name: Vec<String>,
    /// The folder in which the files of its child modules lie.
    folder: PathBuf,
    /// Whether the module is written inside another one's file.
    inline: bool,
    test: bool,
}

impl<'s> Walk<'s> {
    fn file(&mut self, path: &Path, place: &Place) {
        // A missing file is for the declaration to report, a broken one for the parser.
        let Some(syntax) = self.sources.syntax(path) else {
            return;
        };
        let test = place.test || is_test(&syntax.attrs);
        self.module(path, &syntax.attrs, &syntax.items, place, test);
    }

    fn module(
        &mut self,
        file: &Path,
        attributes: &'s [Attribute],
        items: &'s [Item],
        place: &Place,
        test: bool,
    ) {
        let (name, file) = (place.name.clone(), file.to_owned());
        for item in items {
            if let Item::Mod(declared) = item {
                self.child(&file, declared, place, test);
            }
        }
        self.tree.modules.push(Module { name, file, attributes, items, test });
    }

    fn child(&mut self, file: &Path, declared: &'s ItemMod, parent: &Place, test: bool) {
        let ident = declared.ident.unraw().to_string();
        let mut name = parent.name.clone();
        name.push(ident.clone());
        let test = test || is_test(&declared.attrs);
        let folder = parent.folder.join(&ident);
        if let Some((_, items)) = &declared.content {
            let place = Place { name, folder, inline: true, test };
            self.module(file, &declared.attrs, items, &place, test);
            return;
        }
        let (candidates, folder) = match path_attribute(&declared.attrs) {
            Some(given) => {
                let beside = file.parent().unwrap_or(Path::new(""));
                let base = if parent.inline { parent.folder.as_path() } else { beside };
                let path = without_dots(&base.join(given));
                let folder = path.parent().unwrap_or(Path::new("")).to_owned();
                (vec![path], folder)
            }
            None => (vec![folder.with_extension("rs"), folder.join("mod.rs")], folder),
        };
        match candidates.iter().find(|path| self.sources.rust.contains_key(*path)) {
            Some(path) => {
                let place = Place { name, folder, inline: false, test };
                self.file(path, &place);
            }
            None => {
                let line = declared.ident.span().start().line;
                let what = format!("module {ident} has no file");
                let why = "code that is not found cannot be checked";
                self.tree.violations.push(Violation::new(file, line, what, why));
            }
        }
    }
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        let Expr::Lit(literal) = &pair.value else {
            return None;
        };
        let Lit::Str(text) = &literal.lit else {
            return None;
        };
        pair.path.is_ident("path").then(|| text.value())
    })
}

fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(texts: &[(&str, &str)]) -> Vec<String> {
        let sources = Sources::from_texts(texts);
        let mut lines: Vec<String> = walk(&sources, Path::new(texts[0].0), false)
            .modules
            .iter()
            .map(|module| {
                let test = if module.test { " (test)" } else { "" };
                format!("{} in {}{test}", module.name.join("::"), module.file.display())
            })
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn modules_are_found_in_both_places_a_file_may_lie() {
        let found = modules(&[
            ("src/lib.rs", "mod a; mod b { mod c; }"),
            ("src/a.rs", "mod d;"),
            ("src/a/d/mod.rs", "mod e;"),
            ("src/a/d/e.rs", ""),
            ("src/b/c.rs", ""),
        ]);
        assert_eq!(
            found,
            [
                "crate in src/lib.rs",
                "crate::a in src/a.rs",
                "crate::a::d in src/a/d/mod.rs",
                "crate::a::d::e in src/a/d/e.rs",
                "crate::b in src/lib.rs",
                "crate::b::c in src/b/c.rs",
            ]
        );
    }

    #[test]
    fn a_path_attribute_is_followed() {
        let found = modules(&[
            ("src/lib.rs", "#[path = \"../shared/x.rs\"] mod x;"),
            ("shared/x.rs", "mod y;"),
            ("shared/y.rs", ""),
        ]);
        assert_eq!(
            found,
            ["crate in src/lib.rs", "crate::x in shared/x.rs", "crate::x::y in shared/y.rs"]
        );
    }

    #[test]
    fn what_is_declared_for_tests_is_test_code_all_the_way_down() {
        let found = modules(&[
            ("src/lib.rs", "#[cfg(test)] mod tests; mod a;"),
            ("src/tests/mod.rs", "mod support;"),
            ("src/tests/support.rs", ""),
            ("src/a.rs", "#![cfg(test)]"),
        ]);
        assert_eq!(
            found,
            [
                "crate in src/lib.rs",
                "crate::a in src/a.rs (test)",
                "crate::tests in src/tests/mod.rs (test)",
                "crate::tests::support in src/tests/support.rs (test)",
            ]
        );
    }

    #[test]
    fn a_module_without_a_file_is_a_violation() {
        let sources = Sources::from_texts(&[("src/lib.rs", "\nmod gone;")]);
        let found = walk(&sources, Path::new("src/lib.rs"), false).violations;
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("src/lib.rs:2: module gone"));
    }
}
