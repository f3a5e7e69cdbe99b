//! What a written path means: follows imports, renames, globs and modules within one target.
//!
//! This is name resolution with a bias. Where the compiler would choose one meaning, this gives
//! all that come into question, and a path is banned if any of them is. Imports inside a function
//! count for the whole module around it.

use std::collections::{BTreeMap, BTreeSet};

use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{Item, ItemExternCrate, ItemType, ItemUse, Type};

use super::imports::{self, Import};
use super::module_tree::Module;
use super::test_code::{is_test, item_attributes};

/// How many globs in a row are followed; `use Kind::*` would otherwise lead to itself for ever.
const GLOB_HOPS_MAX: usize = 3;

/// The names that the modules of one target know.
#[derive(Default)]
pub(crate) struct Names {
    modules: BTreeMap<Vec<String>, Scope>,
}

#[derive(Default)]
struct Scope {
    aliases: BTreeMap<String, Vec<Target>>,
    globs: Vec<Target>,
    children: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    segments: Vec<String>,
    absolute: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    module: Vec<String>,
    target: Target,
    glob_hops: usize,
}

impl Names {
    /// Collects the names of all modules that exist outside tests.
    pub(crate) fn collect(modules: &[Module<'_>]) -> Self {
        let mut names = Self::default();
        for module in modules.iter().filter(|module| !module.test) {
            let mut scope = names.modules.remove(&module.name).unwrap_or_default();
            for item in module.items {
                match item {
                    Item::Mod(child) => {
                        if !is_test(&child.attrs) {
                            scope.children.insert(child.ident.unraw().to_string());
                        }
                    }
                    _ => scope.visit_item(item),
                }
            }
            names.modules.insert(module.name.clone(), scope);
        }
        names
    }

    /// Every full path that `segments`, written in `module`, may stand for. A path into this
    /// crate yields nothing unless an import leads it out again.
    pub(crate) fn resolve(
        &self,
        module: &[String],
        segments: &[String],
        absolute: bool,
    ) -> BTreeSet<Vec<String>> {
        let target = Target { segments: segments.to_vec(), absolute };
        let mut pending = vec![Question { module: module.to_vec(), target, glob_hops: 0 }];
        let mut seen = BTreeSet::new();
        let mut meanings = BTreeSet::new();
        while let Some(question) = pending.pop() {
            if !seen.insert(question.clone()) {
                continue;
            }
            if question.target.absolute {
                meanings.insert(canonical(question.target.segments));
            } else {
                self.follow(question, &mut pending, &mut meanings);
            }
        }
        meanings
    }

    fn follow(
        &self,
        question: Question,
        pending: &mut Vec<Question>,
        meanings: &mut BTreeSet<Vec<String>>,
    ) {
        let Question { module, target, glob_hops } = question;
        let (mut module, mut rest, mut local) = start(module, &target.segments);
        while let [name, tail @ ..] = rest {
            let scope = self.modules.get(&module);
            let aliases = scope.and_then(|scope| scope.aliases.get(name)).into_iter().flatten();
            let mut known = false;
            for alias in aliases {
                known = true;
                let mut target = alias.clone();
                // `use tokio;` names a crate, not itself.
                target.absolute |= target.segments.first() == Some(name);
                target.segments.extend_from_slice(tail);
                pending.push(Question { module: module.clone(), target, glob_hops });
            }
            if scope.is_some_and(|scope| scope.children.contains(name)) {
                module.push(name.clone());
                (rest, local) = (tail, true);
                continue;
            }
            if !known && glob_hops < GLOB_HOPS_MAX {
                for glob in scope.into_iter().flat_map(|scope| &scope.globs) {
                    let mut target = glob.clone();
                    target.segments.extend_from_slice(rest);
                    let glob_hops = glob_hops + 1;
                    pending.push(Question { module: module.clone(), target, glob_hops });
                }
            }
            if !known && !local {
                meanings.insert(canonical(rest.to_vec()));
            }
            return;
        }
    }
}

/// Where the search begins: the module that `crate`, `self` and `super` lead to, the names that
/// are left, and whether those can only be found there.
fn start(mut module: Vec<String>, segments: &[String]) -> (Vec<String>, &[String], bool) {
    let mut rest = segments;
    let mut local = false;
    while let [name, tail @ ..] = rest {
        match name.as_str() {
            "crate" => module.truncate(1),
            "super" => {
                module.pop();
            }
            "self" => {}
            _ => break,
        }
        (rest, local) = (tail, true);
    }
    (module, rest, local)
}

fn canonical(mut segments: Vec<String>) -> Vec<String> {
    if let Some(first) = segments.first_mut()
        && (first == "core" || first == "alloc")
    {
        "std".clone_into(first);
    }
    segments
}

impl Scope {
    fn add(&mut self, import: Import) {
        let target = Target { segments: import.segments, absolute: import.absolute };
        match import.alias {
            Some(alias) => self.aliases.entry(alias).or_default().push(target),
            None => self.globs.push(target),
        }
    }
}

impl<'ast> Visit<'ast> for Scope {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        for import in imports::of_use(item) {
            self.add(import);
        }
    }

    fn visit_item_extern_crate(&mut self, item: &'ast ItemExternCrate) {
        self.add(imports::of_extern_crate(item));
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        // `type Clock = Instant` is a rename as much as `use Instant as Clock`.
        if let Type::Path(path) = &*item.ty
            && path.qself.is_none()
        {
            let segments = &path.path.segments;
            let target = Target {
                segments: segments.iter().map(|one| one.ident.unraw().to_string()).collect(),
                absolute: path.path.leading_colon.is_some(),
            };
            self.aliases.entry(item.ident.unraw().to_string()).or_default().push(target);
        }
    }
}

#[cfg(test)]
mod tests;
