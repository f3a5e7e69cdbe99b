//! What a `use` declaration brings in, written out one name at a time.

use syn::ext::IdentExt;
use syn::{Ident, ItemExternCrate, ItemUse, UseTree};

/// One name that a `use` or `extern crate` makes known, or everything in a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// The full path.
    pub(crate) segments: Vec<String>,
    /// Begins with `::`, so that the first name is a crate.
    pub(crate) absolute: bool,
    /// The name it is known by here; none for a glob.
    pub(crate) alias: Option<String>,
    pub(crate) line: usize,
}

/// Writes out the tree of a `use`.
pub(crate) fn of_use(item: &ItemUse) -> Vec<Import> {
    let mut imports = Vec::new();
    flatten(&item.tree, Vec::new(), item.leading_colon.is_some(), &mut imports);
    imports
}

/// `extern crate a as b` says the same as `use ::a as b`.
pub(crate) fn of_extern_crate(item: &ItemExternCrate) -> Import {
    let alias = item.rename.as_ref().map_or(&item.ident, |(_, rename)| rename);
    import(vec![plain(&item.ident)], item.ident != "self", Some(alias), &item.ident)
}

fn flatten(tree: &UseTree, mut prefix: Vec<String>, absolute: bool, imports: &mut Vec<Import>) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(plain(&path.ident));
            flatten(&path.tree, prefix, absolute, imports);
        }
        UseTree::Name(name) => imports.push(named(prefix, absolute, &name.ident, None)),
        UseTree::Rename(name) => {
            imports.push(named(prefix, absolute, &name.ident, Some(&name.rename)));
        }
        UseTree::Glob(glob) => imports.push(Import {
            segments: prefix,
            absolute,
            alias: None,
            line: glob.star_token.span.start().line,
        }),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix.clone(), absolute, imports);
            }
        }
    }
}

fn named(
    mut segments: Vec<String>,
    absolute: bool,
    name: &Ident,
    rename: Option<&Ident>,
) -> Import {
    // In `use a::{self}` the word `self` stands for `a`.
    if name != "self" || segments.is_empty() {
        segments.push(plain(name));
    }
    let mut import = import(segments, absolute, rename, name);
    if rename.is_none() {
        import.alias = import.segments.last().cloned();
    }
    import
}

fn import(
    segments: Vec<String>,
    absolute: bool,
    alias: Option<&Ident>,
    position: &Ident,
) -> Import {
    let line = position.span().start().line;
    Import { segments, absolute, alias: alias.map(plain), line }
}

fn plain(ident: &Ident) -> String {
    ident.unraw().to_string()
}

#[cfg(test)]
mod tests {
    use syn::Item;

    use super::*;

    fn imports(text: &str) -> Vec<String> {
        let file = syn::parse_file(text).unwrap();
        let imports = match &file.items[0] {
            Item::Use(item) => of_use(item),
            Item::ExternCrate(item) => vec![of_extern_crate(item)],
            _ => Vec::new(),
        };
        imports
            .iter()
            .map(|import| {
                let start = if import.absolute { "::" } else { "" };
                let alias = import.alias.as_deref().unwrap_or("*");
                format!("{start}{} as {alias}", import.segments.join("::"))
            })
            .collect()
    }

    #[test]
    fn nested_groups_are_written_out() {
        assert_eq!(
            imports("use std::{self as s, time::{self, Duration, Instant as I}, fs::*};"),
            [
                "std as s",
                "std::time as time",
                "std::time::Duration as Duration",
                "std::time::Instant as I",
                "std::fs as *",
            ]
        );
    }

    #[test]
    fn leading_colons_and_extern_crates_are_absolute() {
        assert_eq!(imports("use ::std::fs;"), ["::std::fs as fs"]);
        assert_eq!(imports("extern crate std as s;"), ["::std as s"]);
        assert_eq!(imports("extern crate tokio;"), ["::tokio as tokio"]);
    }

    #[test]
    fn raw_names_are_the_names_they_spell() {
        assert_eq!(imports("use r#std::fs as r#type;"), ["std::fs as type"]);
    }
}
